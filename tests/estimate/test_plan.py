"""Laws of sizes: they grow with context and batch, and the longest context that fits is the longest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmcli.errors import ModelError, UsageError
from llmcli.estimate.architecture import Architecture
from llmcli.estimate.layers import LayerGroup, LayerSpec, peak_bytes, steady_bytes
from llmcli.estimate.plan import Sizer, SizeRequest, Subject, estimate

SPECS = st.builds(
    LayerSpec,
    kind=st.sampled_from(["full_attention", "sliding_attention", "linear_attention"]),
    keys=st.integers(0, 4096),
    values=st.integers(0, 4096),
    max_tokens=st.none() | st.integers(1, 5000),
    state_bytes=st.integers(0, 10**6),
)
LAYERS = st.lists(st.builds(LayerGroup, spec=SPECS, count=st.integers(1, 64)), min_size=1, max_size=4).map(tuple)
TOKENS = st.integers(1, 20_000)


def subject(limit: int | None = 8192, dtype: str | None = "bfloat16", window: int | None = None) -> Subject:
    layers = (LayerGroup(LayerSpec("full_attention", 192, 192, window), 30),)
    return Subject("m", Architecture("llama", layers, 9, 3, 64, 134_515_008, 106_168_320, dtype, limit), limit)


@given(LAYERS, TOKENS, TOKENS, st.integers(1, 16), st.sampled_from([2, 4]))
def test_sizes_grow_with_context_and_batch(layers, one, other, batch, element):
    shorter, longer = sorted((one, other))
    assert steady_bytes(layers, shorter, element) <= steady_bytes(layers, longer, element)
    assert peak_bytes(layers, shorter, element) <= peak_bytes(layers, longer, element)
    assert steady_bytes(layers, longer, element) <= peak_bytes(layers, longer, element)
    sizer = Sizer(layers, element, 1000, None)
    assert sizer.row(longer, batch).kv_bytes == batch * sizer.row(longer, 1).kv_bytes
    assert sizer.total(longer, batch) <= sizer.total(longer, batch + 1)


@given(LAYERS, st.integers(1, 10**11), st.integers(1, 8), st.none() | TOKENS)
def test_the_longest_context_fits_and_one_more_token_does_not(layers, vram, batch, limit):
    sizer = Sizer(layers, 2, 10**6, vram)
    longest = sizer.max_context(batch, limit)
    assert 0 <= longest <= (limit or 2**40)
    if longest:
        assert sizer.total(longest, batch) <= vram
    if longest != (limit or 2**40):
        assert sizer.total(longest + 1, batch) > vram


@given(
    st.lists(TOKENS, min_size=1, max_size=3),
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.integers(10**8, 10**10),
)
def test_every_row_adds_up(contexts, batches, vram):
    answer = estimate(subject(), SizeRequest(tuple(contexts), tuple(batches), vram=vram), "5.24.0")
    assert [(row.batch, row.context) for row in answer.rows] == [(b, c) for b in batches for c in contexts]
    for row in answer.rows:
        assert row.kv_bytes == row.kv_peak_bytes == row.kv_allocated_bytes == 23_040 * row.context * row.batch
        assert row.total_bytes == row.kv_bytes + row.weights_bytes
        assert row.headroom_bytes == vram - row.total_bytes
        assert row.fits == (row.headroom_bytes >= 0)


def test_the_model_limit_binds_and_a_longer_context_is_sized_with_a_warning():
    answer = estimate(subject(), SizeRequest((4096, 16_384), vram=10**12), "5.24.0")
    assert answer.max_context == 8192
    assert answer.rows[1].kv_bytes == 23_040 * 16_384
    assert "16384" in answer.warnings[0]
    assert "8192" in answer.warnings[0]


def test_without_vram_nothing_is_said_about_fitting():
    answer = estimate(subject(), SizeRequest(), "5.24.0")
    assert answer.max_context is None
    assert [row.context for row in answer.rows] == [4096, 8192]
    assert all(row.fits is row.vram_bytes is row.headroom_bytes is None for row in answer.rows)


def test_several_batches_get_the_context_that_fits_all_of_them():
    request = SizeRequest((1024,), (1, 4), vram=10**9)
    answer = estimate(subject(limit=None), request, "5.24.0")
    alone = estimate(subject(limit=None), SizeRequest((1024,), (4,), vram=10**9), "5.24.0")
    assert answer.max_context == alone.max_context


def test_nothing_fits():
    answer = estimate(subject(), SizeRequest(vram=1000), "5.24.0")
    assert answer.max_context == 0
    assert "not even one token" in answer.warnings[-1]


def test_fits_uses_the_peak_of_prefill():
    windowed = subject(window=100)
    row = estimate(windowed, SizeRequest((1000,), dtype="float16"), "5.24.0").rows[0]
    assert row.kv_bytes == 23_040 * 100
    assert row.kv_peak_bytes == 23_040 * 1000
    assert row.total_bytes == row.weights_bytes + row.kv_peak_bytes


@pytest.mark.parametrize(
    ("limit", "contexts"), [(1024, [1024]), (None, [4096, 8192, 32768]), (131072, [4096, 8192, 32768])]
)
def test_default_contexts_stay_within_the_limit(limit, contexts):
    assert [row.context for row in estimate(subject(limit), SizeRequest(), "5.24.0").rows] == contexts


def test_the_kv_dtype_follows_the_weights_unless_it_is_set():
    def kv(request: SizeRequest, dtype: str | None = "bfloat16") -> tuple[str, int, int]:
        answer = estimate(subject(dtype=dtype), request, "5.24.0")
        return answer.kv.dtype, answer.kv.bytes_per_token_short, answer.rows[0].weights_bytes

    assert kv(SizeRequest()) == ("bfloat16", 23_040, 269_030_016)
    assert kv(SizeRequest(dtype="float32")) == ("float32", 46_080, 538_060_032)
    assert kv(SizeRequest(dtype="float32", kv_dtype="float16")) == ("float16", 23_040, 538_060_032)
    assert kv(SizeRequest(), dtype=None) == ("float32", 46_080, 538_060_032)
    assert kv(SizeRequest(), dtype="torch.float16")[0] == "float16"


def test_a_dtype_without_a_size_asks_for_one():
    with pytest.raises(ModelError, match="float8_e4m3fn") as caught:
        estimate(subject(dtype="float8_e4m3fn"), SizeRequest(), "5.24.0")
    assert "--dtype" in caught.value.hint


def test_sizes_that_json_cannot_hold_are_refused():
    with pytest.raises(UsageError, match="2\\*\\*63"):
        estimate(subject(), SizeRequest((2**40,), (2**20,)), "5.24.0")
