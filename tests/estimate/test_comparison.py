"""The same cache in the other engines."""

import pytest
from sized import architecture, subject

from llmcli.estimate.engines.named import ENGINES
from llmcli.estimate.facts import Attention, Compressed
from llmcli.estimate.plan import estimate
from llmcli.estimate.request import SizeRequest


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_the_last_row_is_compared_with_every_other_engine(engine):
    answer = estimate(subject(), SizeRequest((1000, 4096), (1, 3)), engine)
    assert [part.engine for part in answer.comparison] == [name for name in ENGINES if name != engine.name]
    for part in answer.comparison:
        alone = estimate(subject(), SizeRequest((4096,), (3,)), ENGINES[part.engine])
        assert (part.context, part.batch) == (4096, 3)
        assert part.engine_version == ENGINES[part.engine].version
        assert part.kv_bytes == alone.rows[0].kv_bytes
        assert part.ratio == part.kv_bytes / answer.rows[-1].kv_bytes


def test_an_engine_that_drops_no_rows_holds_more():
    windowed = subject(architecture(Attention(2, 16, 16, window=100)))
    others = {part.engine: part for part in estimate(windowed, SizeRequest((4096,))).comparison}
    assert others["llama.cpp"].ratio > 40


def test_a_format_that_another_engine_does_not_have_is_compared_in_16_bits():
    model = subject(architecture(Attention(2, 64, 64)))
    answer = estimate(model, SizeRequest((4096,), kv_dtype="int4"))
    others = {part.engine: part for part in answer.comparison}
    sixteen_bits = estimate(model, SizeRequest((4096,))).rows[0].kv_bytes
    assert others["llama.cpp"].kv_bytes == sixteen_bits
    assert any("llama.cpp is compared in f16" in note for note in answer.assumptions)


def test_an_engine_without_such_a_cache_is_left_out_with_a_note():
    answer = estimate(subject(architecture(Compressed(stride=4, row_dim=64, pending_dim=32))), SizeRequest((4096,)))
    assert answer.comparison == ()
    assert [note for note in answer.assumptions if "is not compared" in note] == [
        f"{name} is not compared: how it keeps the cache of llama is not known here" for name in ("llama.cpp", "vllm")
    ]
