"""What to change when it does not fit: every number holds when the change is made."""

import re
from dataclasses import replace

import pytest
from sized import architecture, mixture, subject

from llmcli.cli.app import run
from llmcli.estimate.counts import linear
from llmcli.estimate.engines.named import ENGINES
from llmcli.estimate.engines.rules import Engine
from llmcli.estimate.engines.transformers import TRANSFORMERS
from llmcli.estimate.facts import Attention
from llmcli.estimate.plan import estimate
from llmcli.estimate.report import AdvicePart, Estimate
from llmcli.estimate.request import SizeRequest
from llmcli.estimate.subject import Subject
from llmcli.units import GIB

WIDE = subject(architecture(Attention(2, 64, 64), layers=32, head_dim=64, positions=131_072))
WINDOWS = subject(architecture(Attention(2, 64, 64, window=512), layers=32, head_dim=64, positions=131_072))
ASKED = SizeRequest((65_536,), (4,), overhead=0)


def advised(model: Subject, request: SizeRequest, engine: Engine, share: float) -> Estimate:
    """The answer where only `share` of what is asked for is there."""
    total = estimate(model, request, engine).rows[-1].total_bytes
    return estimate(model, replace(request, vram=(int(total * share),)), engine)


def changed(request: SizeRequest, change: str) -> tuple[SizeRequest, Engine | None]:
    """The request as the flags of a change say, and the engine that they name."""
    flags = dict(re.findall(r"--([a-z-]+) (\S+)", change))
    engine = flags.pop("engine", None)
    values: dict[str, object] = {}
    for flag, value in flags.items():
        match flag:
            case "context":
                values["contexts"] = (int(value),)
            case "batch":
                values["batches"] = (int(value),)
            case "prefill-chunk":
                values["prefill_chunk"] = int(value)
            case _:
                values[flag.replace("-", "_")] = value
    return replace(request, **values), ENGINES[engine] if engine else None


@pytest.mark.parametrize("share", [0.9, 0.5, 0.05])
@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("model", [WIDE, WINDOWS], ids=["wide", "windows"])
def test_every_change_does_what_it_says(model, engine, share):
    answer = advised(model, ASKED, engine, share)
    row = answer.rows[-1]
    vram = row.vram_bytes
    assert row.fits is False
    for part in answer.advice:
        request, other = changed(replace(ASKED, vram=(vram,)), part.change)
        made = estimate(model, request, other or engine)
        assert made.rows[-1].total_bytes == part.total_bytes == row.total_bytes - part.saved_bytes
        assert made.rows[-1].fits is part.fits is (part.total_bytes <= vram)
        assert made.max_context == part.max_context
        assert part.saved_bytes > 0


def test_int8_is_advised_in_the_dtype_that_it_runs_in():
    changes = {
        dtype: [part.change for part in advised(WIDE, replace(ASKED, dtype=dtype), TRANSFORMERS, 0.999).advice]
        for dtype in (None, "float32")
    }
    assert "--quant int8" in changes[None]
    assert "--quant int8 --dtype float16" in changes["float32"]


def single(answer: Estimate) -> list[AdvicePart]:
    return [part for part in answer.advice if part.change.count("--") == 1]


@pytest.mark.parametrize("share", [0.9, 0.5, 0.2])
def test_the_largest_saving_comes_first_and_a_combination_last(share):
    answer = advised(WIDE, ASKED, TRANSFORMERS, share)
    saved = [part.saved_bytes for part in single(answer)]
    assert saved == sorted(saved, reverse=True)
    assert list(answer.advice[: len(saved)]) == single(answer)
    assert len(answer.advice) - len(saved) <= 1


def test_a_combination_is_offered_where_no_single_change_fits():
    heavy = subject(architecture(Attention(2, 64, 64), layers=32, head_dim=64, positions=131_072))
    weights = estimate(heavy, ASKED).rows[0].weights_bytes
    answer = estimate(heavy, replace(ASKED, vram=(int(weights * 0.9),)))
    assert not any(part.fits for part in single(answer))
    combined = answer.advice[-1]
    assert combined.fits
    assert combined.change.count("--") > 1
    assert "--quant" in combined.change


def test_context_and_batch_stay_where_other_changes_are_enough():
    heavy = subject(architecture(Attention(2, 64, 64), layers=32, head_dim=64, count=linear(512, 512)))
    request = SizeRequest((500,), overhead=0)
    both = estimate(heavy, replace(request, kv_dtype="int4", quant="nf4")).rows[0]
    answer = estimate(heavy, replace(request, vram=(both.total_bytes,)))
    assert answer.max_context == 0
    assert not any(part.fits for part in single(answer))
    assert answer.advice[-1].change == "--kv-dtype int4 --quant nf4"


def test_a_mixture_that_bitsandbytes_cannot_shrink_is_sent_to_llama_cpp():
    model, request = subject(mixture(number=64)), SizeRequest((500,), overhead=0)
    weights = estimate(model, request).rows[0].weights_bytes
    answer = estimate(model, replace(request, vram=(int(weights * 0.8),)))
    assert not any(part.fits for part in single(answer))
    assert answer.advice[-1].change.startswith("--engine llama.cpp --quant q")
    assert answer.advice[-1].fits


def test_the_context_that_was_asked_for_is_kept_if_something_else_helps():
    both = estimate(WIDE, replace(ASKED, kv_dtype="int4", quant="nf4")).rows[0]
    answer = estimate(WIDE, replace(ASKED, vram=(both.total_bytes,)))
    assert any(part.fits for part in single(answer) if "--context" in part.change)
    assert answer.advice[-1].fits
    assert "--kv-dtype int4 --quant nf4" in answer.advice[-1].change


def test_one_sequence_is_told_of_even_where_it_does_not_fit():
    one = estimate(WIDE, replace(ASKED, batches=(1,))).rows[0].total_bytes
    changes = {part.change: part for part in estimate(WIDE, replace(ASKED, vram=(one - 1,))).advice}
    assert not changes["--batch 1"].fits


def test_a_change_that_chat_cannot_make_is_named(capsys):
    answer = advised(WIDE, ASKED, TRANSFORMERS, 0.5)
    (note,) = [text for text in answer.assumptions if text.startswith("chat has no")]
    assert run(["chat", "--help"]) == 0
    in_chat = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    named = set(re.findall(r"--[a-z-]+", note))
    made = {flag for part in answer.advice for flag in re.findall(r"--[a-z-]+", part.change)}
    assert made - in_chat - {"--engine", "--context"} == named == {"--batch"}
    alone = advised(WIDE, replace(ASKED, batches=(1,)), TRANSFORMERS, 0.5)
    for other in (alone, advised(WIDE, ASKED, ENGINES["vllm"], 0.5)):
        assert not any("chat has no" in text for text in other.assumptions)


def test_the_row_that_lacks_most_is_advised_on():
    total = estimate(WIDE, ASKED).rows[0].total_bytes
    answer = estimate(WIDE, replace(ASKED, contexts=(1024, 65_536, 4096), vram=(total // 2,)))
    part = answer.advice[0]
    worst = max(row.total_bytes for row in answer.rows)
    assert part.saved_bytes + part.total_bytes == worst


def test_nothing_is_advised_where_everything_fits_or_nothing_is_asked():
    assert estimate(WIDE, ASKED).advice == ()
    assert estimate(WIDE, replace(ASKED, vram=(100 * GIB,))).advice == ()


def test_a_cache_that_cannot_be_quantized_is_not_advised_to_be():
    changes = [part.change for part in advised(WINDOWS, ASKED, TRANSFORMERS, 0.5).advice]
    assert changes
    assert not any("--kv-dtype" in change for change in changes)


def test_a_quantized_checkpoint_is_not_advised_to_be_quantized():
    model = replace(WIDE, architecture=replace(WIDE.architecture, quantization="fp8"))
    changes = [part.change for part in advised(model, ASKED, TRANSFORMERS, 0.5).advice]
    assert any("--kv-dtype" in change for change in changes)
    assert not any("--quant" in change for change in changes)


def test_another_engine_is_named_where_it_really_changes_the_total():
    cached = subject(
        architecture(Attention(2, 64, 64, cached_heads=32), layers=32, heads=32, head_dim=64, positions=131_072)
    )
    changes = {part.change: part for part in advised(cached, ASKED, TRANSFORMERS, 0.5).advice}
    assert changes["--engine llama.cpp"].saved_bytes > changes["--engine llama.cpp"].total_bytes
