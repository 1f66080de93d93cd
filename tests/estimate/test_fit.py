"""What a model takes before it is loaded: laws of the plan."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny

from llmcli.estimate.config import Config
from llmcli.estimate.fit import RUNTIME_BYTES, USEFUL_CONTEXT, Setting, Stored, need_of
from llmcli.estimate.from_config import from_config
from llmcli.estimate.plan import estimate
from llmcli.estimate.request import SizeRequest
from llmcli.estimate.subject import Subject
from llmcli.estimate.weights import weight_bytes

MODEL = from_config(Config("c", tiny("llama", max_position_embeddings=100_000)))
STORED = Stored(MODEL, 2 * MODEL.params, "bfloat16")
QUANTS = ("none", "int8", "nf4", "fp4", "int4")
SETTINGS = st.builds(
    Setting,
    quant=st.sampled_from(QUANTS),
    dtype=st.sampled_from(["float32", "bfloat16", "float16"]),
    device=st.sampled_from(["cpu", "mps", "cuda"]),
)
TOKENS = st.integers(1, 100_000)


@given(SETTINGS, TOKENS, TOKENS)
def test_more_tokens_never_take_less(setting, one, other):
    need = need_of(STORED, setting)
    assert need.total(min(one, other)) <= need.total(max(one, other))


@given(SETTINGS, st.integers(0, 10**8))
def test_the_longest_context_fits_and_256_more_tokens_do_not(setting, room):
    need = need_of(STORED, setting)
    free = need.weights + need.runtime + room
    longest = need.longest(free)
    if longest is None:
        assert need.weights + need.runtime + need.held(need.limit) <= free
        return
    assert longest == 0 or need.weights + need.runtime + need.held(longest) <= free
    assert need.weights + need.runtime + need.held(longest + 256) > free
    assert longest % 256 == 0 or longest < 256


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("quant", QUANTS)
def test_weights_are_those_of_the_estimate_whatever_they_are_stored_in(quant, dtype):
    for stored in (STORED, replace(STORED, bytes=1), replace(STORED, dtype=None)):
        assert need_of(stored, Setting(quant, dtype, "cpu")).weights == weight_bytes(MODEL, quant, dtype)


def test_windows_are_planned_as_the_engine_fills_them():
    values = tiny("mistral", sliding_window=100, max_position_embeddings=100_000)
    model = from_config(Config("c", values))
    need = need_of(Stored(model, 0, None), Setting("none", "bfloat16", "cuda"))
    row = need.cache(1)
    assert need.cache(2048) == 2048 * row
    assert need.cache(100_000) == (99 + 2048) * row
    unknown = replace(model, model_type="unheard_of")
    assert need_of(Stored(unknown, 0, None), Setting("none", "bfloat16", "cuda")).cache(100_000) == 100_000 * row


@pytest.mark.parametrize("quant", ["none", "nf4"])
@pytest.mark.parametrize("context", [1, 2048, 50_000])
def test_a_gpu_is_planned_as_it_is_estimated(quant, context):
    need = need_of(STORED, Setting(quant, "bfloat16", "cuda"))
    row = estimate(Subject("m", MODEL, None), SizeRequest((context,), quant=quant, dtype="bfloat16")).rows[0]
    assert need.total(context) == max(row.total_bytes, need.weights + need.runtime + need.workspace)


def test_an_unknown_family_is_planned_by_its_stored_bytes_alone():
    need = need_of(Stored(None, 1000, "bfloat16"), Setting("none", "float32", "cpu"))
    assert (need.weights, need.cache(10**6), need.longest(0)) == (2000, 0, None)
    assert need.total(1) == 2000 + RUNTIME_BYTES["cpu"]
    assert need_of(Stored(None, 1000, "bfloat16"), Setting("nf4", "bfloat16", "cpu")).weights == 350


def test_experts_are_not_expected_to_shrink():
    need = need_of(Stored(None, 1000, "bfloat16", experts=True), Setting("nf4", "bfloat16", "cuda"))
    assert need.weights == 1000


def test_a_quantized_checkpoint_takes_what_it_is_stored_in():
    need = need_of(replace(STORED, bytes=777, quant="nf4"), Setting("nf4", "bfloat16", "cpu"))
    assert (need.weights, need.workspace) == (777, 0)


@pytest.mark.parametrize(
    ("limit", "asked", "useful"),
    [(100_000, None, USEFUL_CONTEXT), (512, None, 512), (100_000, 16, 16), (100_000, 9000, USEFUL_CONTEXT)],
)
def test_the_context_that_must_fit_is_small(limit, asked, useful):
    need = replace(need_of(STORED, Setting("none", "float32", "cpu")), limit=limit)
    assert need.useful_context(asked) == useful
