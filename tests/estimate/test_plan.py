"""Laws of sizes: they add up, grow with context and batch, and the longest context that fits is the longest."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sized import architecture, sizer, subject

from llmcli.errors import ModelError, UsageError
from llmcli.estimate.facts import Attention
from llmcli.estimate.fitting import UNLIMITED
from llmcli.estimate.layers import LayerGroup, LayerSpec, in_chunks, peak_bytes, steady_bytes
from llmcli.estimate.long_rope import one_piece_past
from llmcli.estimate.plan import estimate
from llmcli.estimate.request import SizeRequest
from llmcli.units import bytes_text

ROWS = st.integers(0, 8192)
SPECS = st.builds(
    LayerSpec,
    kind=st.sampled_from(["full_attention", "sliding_attention", "linear_attention"]),
    row_bytes=ROWS,
    max_tokens=st.none() | st.integers(1, 5000),
    state_bytes=st.integers(0, 10**6),
    peak_tokens=st.none() | st.integers(1, 5000),
    granule=st.sampled_from([1, 16, 256]),
    spare=st.integers(0, 2),
    stride=st.sampled_from([1, 4, 128]),
    chunk=st.none() | st.integers(1, 3000),
)
TAILED = st.builds(
    lambda row, more, tail: LayerSpec("full_attention", row, tail_tokens=tail, tail_bytes=row + more, shared_bytes=8),
    ROWS,
    ROWS,
    st.integers(0, 200),
)
LAYERS = st.lists(st.builds(LayerGroup, spec=SPECS | TAILED, count=st.integers(1, 64)), min_size=1, max_size=4)
TOKENS = st.integers(1, 20_000)
CHUNKS = st.none() | st.integers(1, 4096)


@given(LAYERS, TOKENS, TOKENS)
def test_a_cache_grows_with_context_and_its_peak_is_no_less(layers, one, other):
    shorter, longer = sorted((one, other))
    assert steady_bytes(layers, shorter) <= steady_bytes(layers, longer)
    assert peak_bytes(layers, shorter) <= peak_bytes(layers, longer)
    assert steady_bytes(layers, longer) <= peak_bytes(layers, longer)


@given(LAYERS, TOKENS, st.integers(1, 4096))
def test_a_prompt_in_pieces_never_holds_more_than_in_one(layers, tokens, chunk):
    whole = [replace(group, spec=replace(group.spec, chunk=None)) for group in layers]
    assert peak_bytes(in_chunks(layers, chunk), tokens) <= peak_bytes(whole, tokens)


@given(LAYERS, CHUNKS, TOKENS, TOKENS, st.integers(1, 16))
def test_totals_grow_with_context_and_batch(layers, chunk, one, other, batch):
    sized = replace(sizer(request=SizeRequest(prefill_chunk=chunk)), layers=tuple(layers))
    shorter, longer = sorted((one, other))
    assert sized.total(shorter, batch) <= sized.total(longer, batch)
    assert sized.total(longer, batch) <= sized.total(longer, batch + 1)
    assert sized.kv_bytes(longer, batch) <= sized.kv_bytes(longer, batch + 1)


@given(LAYERS, CHUNKS, st.lists(st.integers(1, 10**10), min_size=1, max_size=3), st.integers(1, 8), st.none() | TOKENS)
def test_the_longest_context_fits_and_one_more_token_does_not(layers, chunk, vram, batch, limit):
    request = SizeRequest(vram=tuple(vram), overhead=10**6, prefill_chunk=chunk)
    sized = replace(sizer(request=request), layers=tuple(layers))
    longest = sized.max_context(batch, limit)
    assert 0 <= longest <= (limit or UNLIMITED)
    if longest:
        assert sized.fits(longest, batch)
    if longest != (limit or UNLIMITED):
        assert not sized.fits(longest + 1, batch)


@given(
    st.lists(TOKENS, min_size=1, max_size=3),
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.integers(10**8, 10**10),
    CHUNKS,
)
def test_every_row_adds_up(contexts, batches, vram, chunk):
    request = SizeRequest(tuple(contexts), tuple(batches), vram=(vram,), overhead=1000, prefill_chunk=chunk)
    answer = estimate(subject(), request)
    assert [(row.batch, row.context) for row in answer.rows] == [(b, c) for b in batches for c in contexts]
    for row in answer.rows:
        assert row.kv_bytes == row.kv_peak_bytes == row.kv_allocated_bytes == 512 * row.context * row.batch
        assert row.activation_bytes > 0
        parts = row.weights_bytes + row.overhead_bytes + row.kv_peak_bytes + row.activation_bytes
        assert row.total_bytes == parts
        assert row.overhead_bytes == 1000
        assert row.headroom_bytes == vram - row.total_bytes
        assert row.fits == (row.headroom_bytes >= 0)


def test_the_model_limit_binds_and_a_longer_context_is_sized_with_a_warning():
    answer = estimate(subject(), SizeRequest((4096, 16_384), vram=(10**12,), mix=(9000,)))
    assert answer.max_context == 8192
    assert answer.rows[1].kv_bytes == 512 * 16_384
    (warning,) = answer.warnings
    assert warning == "context 16384, 9000 passes the 8192 tokens that the model allows"


def test_without_vram_nothing_is_said_about_fitting():
    answer = estimate(subject(), SizeRequest())
    assert answer.max_context is None
    assert answer.advice == ()
    assert [row.context for row in answer.rows] == [4096, 8192]
    assert all(row.fits is row.vram_bytes is row.headroom_bytes is None for row in answer.rows)


def test_several_batches_get_the_context_that_fits_all_of_them():
    endless = subject(architecture(positions=None))
    answer = estimate(endless, SizeRequest((1024,), (1, 4), vram=(10**9,)))
    alone = estimate(endless, SizeRequest((1024,), (4,), vram=(10**9,)))
    assert 0 < answer.max_context == alone.max_context


def test_nothing_fits():
    answer = estimate(subject(), SizeRequest(vram=(1000,)))
    assert answer.max_context == 0
    assert "not even one token" in answer.warnings[-1]


def test_a_window_holds_what_the_engines_own_pieces_leave_in_it():
    windowed = architecture(Attention(2, 16, 16, window=101), positions=None)
    answer = estimate(subject(windowed), SizeRequest((2000, 10_000), (3,)))
    assert [row.kv_peak_bytes for row in answer.rows] == [3 * 512 * 2000, 3 * 512 * (100 + 2048)]
    (note,) = [text for text in answer.assumptions if "generate()" in text]
    assert "10000" in note
    assert bytes_text(3 * 512 * 10_000) in note
    (whole,) = estimate(subject(replace(windowed, model_type="llama4")), SizeRequest((10_000,))).rows
    assert whole.kv_peak_bytes == 512 * 10_000, "a type that llmcli reads in one piece"


def test_a_prompt_past_the_length_of_longrope_is_read_in_one_piece():
    config = {"model_type": "phi3", "rope_scaling": {"type": "longrope"}, "original_max_position_embeddings": 4096}
    model = architecture(Attention(2, 16, 16, window=101), positions=None)
    answer = estimate(subject(model, config=config), SizeRequest((4096, 5000)))
    assert [row.kv_peak_bytes for row in answer.rows] == [512 * (100 + 2048), 512 * 5000]
    assert answer.rows[1].activation_bytes > 2 * answer.rows[0].activation_bytes
    assert any("past 4096" in text for text in answer.assumptions)


@pytest.mark.parametrize(
    ("config", "length"),
    [
        ({"rope_scaling": {"rope_type": "longrope"}, "max_position_embeddings": 70}, 70),
        ({"rope_parameters": {"rope_type": "longrope", "original_max_position_embeddings": 60}}, 60),
        ({"model_type": "phi3", "rope_scaling": {"type": "su"}}, 4096),
        ({"rope_scaling": {"type": "yarn"}, "original_max_position_embeddings": 60}, None),
        ({"rope_scaling": None}, None),
        ({"rope_scaling": "longrope"}, None),
        ({"rope_scaling": {"type": "longrope"}, "max_position_embeddings": "x"}, None),
    ],
)
def test_the_length_of_longrope_is_that_of_the_config(config, length):
    assert one_piece_past(config) == length


def test_the_largest_moment_counts_for_a_window():
    windowed = subject(architecture(Attention(2, 16, 16, window=101)))
    whole = estimate(windowed, SizeRequest((1000,))).rows[0]
    assert (whole.kv_bytes, whole.kv_peak_bytes) == (512 * 100, 512 * 1000)
    pieces = estimate(windowed, SizeRequest((1000,), prefill_chunk=50)).rows[0]
    assert (pieces.kv_bytes, pieces.kv_peak_bytes) == (512 * 100, 512 * 150)
    assert pieces.total_bytes < whole.total_bytes


@pytest.mark.parametrize(
    ("limit", "contexts"), [(1024, [1024]), (None, [4096, 8192, 32768]), (131072, [4096, 8192, 32768])]
)
def test_default_contexts_stay_within_the_limit(limit, contexts):
    answer = estimate(subject(architecture(positions=limit)), SizeRequest())
    assert [row.context for row in answer.rows] == contexts


def test_the_kv_dtype_follows_the_weights_unless_it_is_set():
    def kv(request: SizeRequest, dtype: str | None = "bfloat16") -> tuple[str, int, int]:
        answer = estimate(subject(architecture(dtype=dtype)), request)
        return answer.kv.dtype, answer.kv.bytes_per_token_short, answer.rows[0].weights_bytes

    params = architecture().params
    assert kv(SizeRequest()) == ("bfloat16", 512, 2 * params)
    assert kv(SizeRequest(dtype="float32")) == ("float32", 1024, 4 * params)
    assert kv(SizeRequest(dtype="float32", kv_dtype="float16")) == ("float16", 512, 4 * params)
    assert kv(SizeRequest(), dtype=None) == ("float32", 1024, 4 * params)
    assert kv(SizeRequest(), dtype="torch.float16")[0] == "float16"
    assert kv(SizeRequest(kv_dtype="fp8"))[:2] == ("fp8", 256)


def test_why_a_size_is_not_exact_comes_from_the_model_and_from_the_format():
    exact = estimate(subject(), SizeRequest(kv_dtype="fp8")).kv
    assert (exact.exact, exact.inexact, exact.fixed_bytes) == (True, (), 4 * 8)
    wide = architecture(Attention(2, 32, 32), inexact=("an upper bound",))
    packed = estimate(subject(wide), SizeRequest(kv_dtype="int4")).kv
    assert not packed.exact
    assert packed.inexact[0] == "an upper bound"
    assert len(packed.inexact) == 3


def test_a_dtype_without_a_size_asks_for_one():
    with pytest.raises(ModelError, match="float8_e4m3fn") as caught:
        estimate(subject(architecture(dtype="float8_e4m3fn")), SizeRequest())
    assert "--dtype" in caught.value.hint


@pytest.mark.parametrize("request_", [SizeRequest((2**40,), (2**20,)), SizeRequest((1,), mix=(2**40,) * 99_999)])
def test_sizes_that_json_cannot_hold_are_refused(request_):
    with pytest.raises(UsageError, match="2\\*\\*63"):
        estimate(subject(), request_)


def test_assumptions_are_named_once_each_and_in_one_line():
    request = SizeRequest(vram=(10**9, 10**9), overhead=2**30)
    answer = estimate(subject(assumptions=("from the catalogue",)), request)
    assert len(set(answer.assumptions)) == len(answer.assumptions)
    assert all("\n" not in text for text in answer.assumptions)
    text = "\n".join(answer.assumptions)
    for said in (
        "from the catalogue",
        "weights in bfloat16",
        "2048 prompt tokens",
        "1.00 GiB per device",
        "whole layers",
    ):
        assert said in text
