"""The benchmarks: their scripts start, and their arithmetic is right."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent / "benchmarks"))

from ceiling import Attainable
from gpu_parts import LlmcliPart
from gpu_report import Plan, Results, figures, series_of
from gpu_report import lines as gpu_lines
from long_prompt import growth_line
from model_shape import shape_of
from peer_engines import require_path
from peers_report import Run, report
from random_model import LLAMA_8B, SMOLLM2_LONG, TINY, write_checkpoint
from rounds import Target, judge, ratios, spread_of
from workers import Unavailable, Worker

REPO = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("script", ["peers", "gpu", "long_prompt"])
def test_help_says_what_a_script_does(script):
    path = REPO / "benchmarks" / f"{script}.py"
    environment = os.environ | {"PYTHONPATH": str(REPO)}
    done = subprocess.run(
        [sys.executable, path, "--help"], check=False, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert f"python benchmarks/{script}.py" in done.stdout
    assert "--json" in done.stdout


def test_a_ratio_is_taken_within_a_round_and_only_where_both_were_measured():
    values = {"a": {"x": [10.0, None, 40.0]}, "b": {"x": [5.0, 1.0, 10.0]}}
    assert ratios(values, ("a", "x"), ("b", "x")) == [2.0, 4.0]
    assert ratios(values, ("a", "x"), ("c", "x")) == []
    assert spread_of(values["a"]["x"]).text() == "25 (10-40)"
    assert spread_of([None]) is None


@pytest.mark.parametrize(("factor", "at_most", "met"), [(2.5, False, True), (3.5, False, False), (2.5, True, False)])
def test_the_median_ratio_decides_whether_a_target_is_met(factor, at_most, met):
    values = {"a": {"x": [1.0, 3.0, 9.0]}, "b": {"x": [1.0, 1.0, 1.0]}}
    judged = judge(Target("a", ("a", "x"), ("b", "x"), factor, at_most), values)
    assert judged.met is met
    assert judged.line().endswith("not met" if not met else ": met")


def test_nothing_is_said_of_a_target_that_was_not_measured():
    judged = judge(Target("a ≥ b", ("a", "x"), ("b", "x"), 1), {})
    assert judged.met is None
    assert judged.line() == "a ≥ b: not measured"


def test_the_costs_of_a_forward_are_those_of_the_model():
    shape = shape_of(SMOLLM2_LONG)
    assert shape.linear == 30 * (2 * 576 * 576 + 2 * 576 * 192 + 3 * 576 * 1536)
    assert shape.prefill_flops(512) == 2 * shape.linear * 512 + 2 * 49152 * 576 + 2 * 30 * 9 * 64 * 512**2
    assert shape.kv_bytes(1000) == 1000 * 30 * 2 * 3 * 64 * 2
    assert shape_of(LLAMA_8B).kv_bytes(1) == 131072


def _run():
    run = Run(rounds=2)
    run.ceilings = [{"read": 40e9, "matmul": 8e11}, {"read": 50e9, "matmul": 7e11}]
    run.facts = {name: {"threads": 2, "streamed_bytes": 250_000_000} for name in ("llama.cpp", "bf16-eager")}
    run.unavailable = {"int4-compiled": "no compiler"}
    run.seconds = {
        "llama.cpp": {"prefill": [1.0, 1.0], "decode_512": [0.64, 0.64]},
        "bf16-eager": {
            "prefill": [0.25, 0.5],
            "decode_0": [1.0, 1.0],
            "decode_512": [1.28, 1.28],
            "batch_0": [1.6, None],
            "bare": [2.0, 2.0],
            "full": [2.0, 2.1],
        },
    }
    return run


def test_the_report_of_peers_has_rates_shares_and_verdicts():
    lines, results = report(_run(), shape_of(SMOLLM2_LONG), ["llama.cpp", "bf16-eager", "int4-compiled"])
    text = "\n".join(lines)
    assert "bf16-eager: prefill 512 ≥ 3 × llama.cpp: 3.00 (2.00-4.00) over 2 rounds: met" in text
    assert "bf16-eager: batch 4 ≥ 2 × batch 1 at depth 0: 2.50 (2.50-2.50) over 1 rounds: met" in text
    assert "1.025 (1.000-1.050) over 2 rounds: not met" in text
    assert "int4-compiled: decode at 512 ≥ 1.3 × llama.cpp: not measured" in text
    assert "left out: int4-compiled: no compiler" in text
    ours = json.loads(json.dumps(results, allow_nan=False))["engines"][1]
    assert ours["figures"]["decode_512"]["median"] == 50
    assert ours["ceiling_tps"]["decode_512"] == pytest.approx(45e9 / (250e6 + 544 * 23040))


def test_the_report_of_gpu_sets_a_step_beside_what_the_device_reads():
    plan, best = Plan(LLAMA_8B), Attainable(4e12, 8e14)
    step = 15_000_000_000 + 576 * 131072
    results = Results(
        seconds={"bf16-graph": {"first": [1.5], "decode": [128 * step / 3e12] * 5, "prefill": [0.1] * 5}},
        facts={"bf16-graph": {"streamed_bytes": 15_000_000_000}},
        failed={"nf4-graph": "no such kernel"},
    )
    shape = shape_of(LLAMA_8B)
    assert series_of(plan, shape, best, results)["bf16-graph"]["bandwidth"][0] == pytest.approx(3e12)
    text = "\n".join(gpu_lines(plan, shape, best, results))
    assert "decode ≥ 80 % of attainable bandwidth: 0.75 (0.75-0.75) over 5 rounds: not met" in text
    assert "left out: nf4-graph: no such kernel" in text
    assert json.dumps(figures(plan, shape, None, Results()), allow_nan=False)


def test_the_growth_of_memory_is_set_beside_that_of_k_and_v():
    found = {1: {"growth": 5, "kv_bytes": 1}} | {
        length: {"growth": 1e8 + length * 30_000, "kv_bytes": length * 20_000} for length in (1000, 3000)
    }
    assert "from 1000 to 3000 tokens: 0.056 GiB more, 1.50 × what K and V grew by" in growth_line(found, 50_000)


def test_a_checkpoint_without_weights_takes_no_room_and_becomes_a_random_model(tmp_path):
    folder = write_checkpoint(tmp_path, TINY | {"vocab_size": 32768})
    weights = (folder / "model.safetensors").stat()
    assert weights.st_size > 16_000_000
    assert weights.st_blocks * 512 < 1_000_000
    part = LlmcliPart(str(folder), "cpu", "none", "eager")
    assert part.facts["weight_bytes"] == pytest.approx(weights.st_size, rel=0.01)
    assert all(p.float().abs().max() > 0 for p in part._engine._loaded.model.parameters())
    found = part.request(8, 2)
    assert found["decode"] > 0
    assert found["kv_bytes"] == 10 * 2 * 2 * 2 * 32 * 2
    part._engine.close()


def test_an_engine_that_runs_otherwise_than_asked_is_not_measured():
    info = SimpleNamespace(quant="none", decode_path="eager", notices=("no compiler here",))
    engine = SimpleNamespace(info=info)
    require_path(engine, "none", "eager")
    with pytest.raises(Unavailable, match=r"asked for compiled .* runs eager .*; no compiler here"):
        require_path(engine, "none", "compiled")


@pytest.mark.parametrize(
    ("build", "argument", "why"),
    [
        (int, "seven", "ValueError: invalid literal"),
        (os._exit, 3, "died with exit code 3"),
        (time.sleep, 60, "took more than 1 s"),
    ],
)
def test_a_part_that_fails_says_why_in_one_line(build, argument, why):
    with pytest.raises(Unavailable, match=why) as caught:
        Worker(build, argument, timeout=1)
    assert "\n" not in str(caught.value)
