"""The measurement: exact lengths, fresh ids, honest statistics."""

import statistics
import threading

import pytest
from tiny_models import Scripted, byte_tokenizer, engine_of, tiny_model

from llmcli.bench.plan import Plan, require_context
from llmcli.bench.render import unstable
from llmcli.bench.result import bench_result, test_result
from llmcli.bench.run import random_ids, run_plan
from llmcli.bench.spread import rates_of, spread_of
from llmcli.errors import EngineFault, UsageError
from llmcli.metrics.host import this_host

test_result.__test__ = False  # a result of a test, not a test


def measure(model, plan, cancel=None, progress=None):
    engine = engine_of(model, byte_tokenizer())
    report = (lambda done, total: progress.append((done, total))) if progress is not None else lambda *_: None
    return engine, list(run_plan(engine, plan, engine.special_ids, cancel or threading.Event(), report))


def test_lengths_are_exact_whatever_the_model_says():
    plan = Plan(prompt_len=20, out_len=7, repeats=3, warmup=1)
    progress = []
    engine, repetitions = measure(tiny_model("llama", vocab_size=258), plan, progress=progress)
    assert len(repetitions) == 3
    for repetition in repetitions:
        tokens = repetition.record.tokens
        assert (tokens.prompt, tokens.evaluated, tokens.cached, tokens.generated, tokens.steps) == (20, 20, 0, 7, 6)
        assert repetition.record.finish_reason == "length"
        assert len(repetition.gaps_ms) == 6
    assert progress[-1] == (4 * 27, 4 * 27)
    assert progress == sorted(progress)
    test = bench_result(engine.info, this_host(), [test_result(plan, repetitions)]).tests[0]
    assert test.name == "pp20+tg7 @ d0 b1"
    assert test.decode.tps.median == pytest.approx(6 / statistics.median(test.decode.seconds))
    assert test.prefill.tps.mean == pytest.approx(3 * 20 / sum(test.prefill.seconds))
    assert test.cache_hits == 0


def test_end_of_sequence_ids_do_not_end_a_repetition():
    plan = Plan(4, 5, 1, 0)
    _, (repetition,) = measure(Scripted([1, 1, 1, 1, 1], 4), plan)
    assert repetition.record.tokens.generated == 5


def test_ids_are_fresh_and_never_special():
    special = frozenset({0, 1, 2})
    drawn = [random_ids(50, 300, special) for _ in range(20)]
    assert len(set(drawn)) == 20
    assert all(len(ids) == 50 and not special & set(ids) and max(ids) < 300 for ids in drawn)


def test_an_interrupt_keeps_whole_repetitions_only():
    cancel = threading.Event()
    model = tiny_model("llama", vocab_size=258)
    engine = engine_of(model, byte_tokenizer())
    found = []
    for repetition in run_plan(engine, Plan(5, 4, 10, 0), engine.special_ids, cancel, lambda *_: None):
        found.append(repetition)
        if len(found) == 2:
            cancel.set()
    assert len(found) == 2


def test_a_failing_repetition_says_so():
    with pytest.raises(EngineFault, match="broken"):
        measure(Scripted([5, 5, 5], 4, break_at=1), Plan(4, 3, 1, 0))


@pytest.mark.parametrize("values", [(0, 1, 1, 0), (1, 0, 1, 0), (1, 1, 0, 0), (1, 1, 1, -1)])
def test_plans_out_of_range_are_refused(values):
    with pytest.raises(UsageError, match="--"):
        Plan(*values)


def test_a_plan_beyond_the_context_names_all_numbers():
    with pytest.raises(UsageError, match=r"100.*28.*128.*x holds 127"):
        require_context(Plan(100, 28, 1, 0), 127, "x")
    require_context(Plan(100, 28, 1, 0), 128, "x")


def test_rates_are_never_means_of_rates():
    spread = rates_of(100, [1.0, 4.0])
    assert spread.mean == pytest.approx(200 / 5)
    assert (spread.min, spread.max) == (25, 100)


def test_a_single_repetition_has_no_deviation_and_one_token_no_rate():
    assert spread_of([2.0]).stddev is None
    assert rates_of(0, [1.0]).median is None
    plan = Plan(3, 1, 1, 0)
    _, repetitions = measure(tiny_model("llama", vocab_size=258), plan)
    test = test_result(plan, repetitions)
    assert (test.stable, test.decode.tps.median, test.decode.itl_ms.p50) == (None, None, None)


def test_an_unstable_result_says_by_how_much_and_what_to_do():
    import dataclasses

    plan = Plan(3, 3, 2, 0)
    _, repetitions = measure(tiny_model("llama", vocab_size=258), plan)
    test = test_result(plan, repetitions)
    shaky = dataclasses.replace(test.decode, tps=spread_of([10.0, 20.0]))
    steady = dataclasses.replace(test.prefill, tps=spread_of([10.0, 10.0]))
    worse = dataclasses.replace(test, stable=False, decode=shaky, prefill=steady)
    notice = unstable([worse])
    assert notice.startswith("unstable: decode varies by 47 % of its mean over 2 repetitions")
    assert "--repeats" in notice
    calm = dataclasses.replace(test, stable=True)
    assert unstable([calm]) is None
    assert "1 of 2 tests, most of all pp3+tg3 @ d0 b1: decode varies by 47 %" in unstable([calm, worse])
