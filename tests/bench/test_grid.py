"""Depth and batch: what is in the cache, what is measured, and what one failing test does to the others."""

import dataclasses
import threading

import pytest
import torch
from tiny_models import byte_tokenizer, engine_of, tiny_model
from traces import record, trace_of

from llmcli.bench.plan import Grid, Plan, require_context
from llmcli.bench.render import table_width
from llmcli.bench.result import Repetition, bench_result, test_result
from llmcli.bench.run import run_plan
from llmcli.bench.run_all import run_all
from llmcli.errors import EngineFault, OutOfMemory, UsageError
from llmcli.metrics.host import this_host

test_result.__test__ = False  # a result of a test, not a test
TOKENIZER = byte_tokenizer()


class Watched:
    """An engine that keeps the requests it is given, and may change them."""

    def __init__(self, model, change=lambda request: request, **more):
        self._engine = engine_of(model, TOKENIZER, **more)
        self._change = change
        self.requests = []
        self.clock = self._engine.clock
        self.info = self._engine.info

    def generate(self, request, cancel):
        self.requests.append(request)
        return self._engine.generate(self._change(request), cancel)


def llama(model_type="llama"):
    return tiny_model(model_type, vocab_size=258)


def measured(engine, plans, cancel=None, report=lambda *_: None):
    kept = []
    return list(run_all(engine, plans, {0, 1}, cancel or threading.Event(), report, keep=kept.append)), kept


@pytest.mark.parametrize("model_type", ["llama", "mistral", "gemma3_text"])
@pytest.mark.parametrize("batch", [1, 3])
def test_a_depth_is_cached_and_nothing_but_the_prompt_is_evaluated(model_type, batch):
    """Also where a sliding window has dropped some of it, and the fill of the next repetition evaluates it again."""
    plan = Plan(prompt_len=7, out_len=4, repeats=2, warmup=1, depth=20, batch=batch)
    engine = Watched(llama(model_type), chunk=8)
    repetitions = list(run_plan(engine, plan, {0, 1}, threading.Event(), lambda *_: None))
    assert len(repetitions) == 2
    for repetition in repetitions:
        tokens = repetition.record.tokens
        assert (tokens.prompt, tokens.cached, tokens.evaluated) == (27 * batch, 20 * batch, 7 * batch)
        assert (tokens.generated, tokens.decoded, tokens.steps, tokens.batch) == (4 * batch, 3 * batch, 3, batch)
        assert repetition.record.cache.miss_reason is None
        assert len(repetition.gaps_ms) == 3
    result = test_result(plan, repetitions)
    assert result.name == f"pp7+tg4 @ d20 b{batch}"
    assert result.cache_hits == 0
    assert result.prefill.tps.mean == pytest.approx(2 * 7 * batch / sum(result.prefill.seconds))
    assert result.decode.tps.mean == pytest.approx(2 * 3 * batch / sum(result.decode.seconds))
    fills, timed = engine.requests[::2], engine.requests[1::2]
    assert len({(fill.prompt, fill.beside) for fill in fills}) == 1
    assert {(len(fill.prompt), fill.sampling.max_new_tokens) for fill in fills} == {(20, 1)}
    ends = [row[20:] for request in timed for row in (request.prompt, *request.beside)]
    assert len(set(ends)) == len(ends) == 3 * batch
    assert all(len(end) == 7 for end in ends)
    assert all(request.prompt[:20] == fills[0].prompt for request in timed)
    rows = (fills[0].prompt, *fills[0].beside)
    assert len(set(rows)) == batch


def test_without_a_depth_no_request_uses_a_cache():
    engine = Watched(llama())
    list(run_plan(engine, Plan(5, 3, 2, 1, batch=2), {0, 1}, threading.Event(), lambda *_: None))
    assert [(request.reuse_cache, len(request.beside)) for request in engine.requests] == [(False, 1)] * 3


def test_a_cache_that_cannot_be_continued_at_a_depth_is_no_measurement():
    engine = Watched(llama(), lambda request: dataclasses.replace(request, reuse_cache=False))
    (refused, other), kept = measured(engine, [Plan(5, 3, 1, 0, depth=6), Plan(5, 3, 1, 0)])
    assert isinstance(refused.error, UsageError)
    assert refused.error.message == "pp5+tg3 @ d6 b1: the cache served 0 of the 6 tokens of its depth"
    assert refused.repetitions == ()
    assert other.complete
    assert len(kept) == 1


def test_more_in_the_cache_than_the_depth_is_a_hit():
    plan = Plan(6, 3, 2, 0, depth=4, batch=2)
    traces = (trace_of(prompt=10, cached=cached, generated=3, batch=2) for cached in (4, 7))
    assert test_result(plan, [Repetition(record(trace), ()) for trace in traces]).cache_hits == 1


def test_a_model_without_reuse_is_measured_at_depth_0_only():
    model = llama()
    model.config.model_type = "something_new"
    engine = Watched(model)
    plans = Grid((5,), (3,), (0, 9), (1,)).plans(repeats=2, warmup=0)
    (whole, deep), kept = measured(engine, plans)
    assert whole.complete
    assert "--depth 9 cannot be measured" in deep.error.message
    assert len(kept) == len(engine.requests) == 2
    result = deep.result
    assert (result.repeats, result.phases, result.decode.tps.median) == (0, None, None)
    assert result.error.type == "UsageError"


def failing(batch, error):
    model = llama()

    def check(_module, _args, kwargs):
        if kwargs["input_ids"].shape[0] == batch:
            raise error

    model.register_forward_pre_hook(check, with_kwargs=True)
    return Watched(model)


def test_memory_that_runs_out_in_one_test_leaves_the_others():
    plans = Grid((5,), (3,), (0, 4), (1, 2)).plans(repeats=2, warmup=1)
    progress = []
    engine = failing(2, torch.OutOfMemoryError("CUDA out of memory"))
    tests, kept = measured(engine, plans, report=lambda *done: progress.append(done))
    assert [type(test.error) for test in tests] == [type(None), OutOfMemory] * 2
    assert [len(test.repetitions) for test in tests] == [2, 0, 2, 0]
    assert len(kept) == 4
    assert tests[2].repetitions[0].record.tokens.cached == 4
    assert progress == sorted(progress)


def test_another_failure_ends_all_tests():
    plans = Grid((5,), (3,), (0,), (1, 2, 3)).plans(repeats=2, warmup=0)
    tests, _ = measured(failing(2, RuntimeError("broken")), plans)
    assert [type(test.error) for test in tests] == [type(None), EngineFault]


def test_an_interrupt_keeps_what_is_complete_of_all_tests():
    cancel = threading.Event()
    kept = []

    def keep(made):
        kept.append(made)
        if len(kept) == 3:
            cancel.set()

    plans = Grid((5,), (3,), (0, 6), (1, 2)).plans(repeats=2, warmup=0)
    tests = list(run_all(Watched(llama()), plans, {0, 1}, cancel, lambda *_: None, keep=keep))
    assert [(test.complete, len(test.repetitions)) for test in tests] == [(True, 2), (False, 1)]


def test_progress_runs_to_its_end_over_all_tests():
    plans = Grid((9, 5), (3, 2), (0, 6), (1, 2)).plans(repeats=2, warmup=1)
    progress = []
    measured(Watched(llama(), chunk=4), plans, report=lambda *done: progress.append(done))
    total = sum(plan.depth + 3 * (plan.prompt_len + plan.out_len) for plan in plans)
    assert progress[-1] == (total, total)
    assert progress == sorted(progress)
    assert {of for _, of in progress} == {total}


def test_every_combination_is_one_test_the_batch_changing_first():
    plans = Grid((8, 16), (4,), (0, 32), (1, 2)).plans(repeats=5, warmup=1)
    assert [plan.name for plan in plans] == [
        f"pp{prompt}+tg4 @ d{depth} b{batch}" for prompt in (8, 16) for depth in (0, 32) for batch in (1, 2)
    ]


def test_the_depth_counts_in_the_context():
    plan = Plan(100, 28, 1, 0, depth=50)
    with pytest.raises(UsageError, match=r"--depth 50, --prompt-len 100 and --out-len 28 need 178 .* x holds 177"):
        require_context(plan, 177, "x")
    require_context(plan, 178, "x")


@pytest.mark.parametrize("values", [{"depth": -1}, {"batch": 0}])
def test_depth_and_batch_out_of_range_are_refused(values):
    with pytest.raises(UsageError, match="--"):
        Plan(1, 1, 1, 0, **values)


def test_a_table_of_long_contexts_fits_eighty_columns():
    info = engine_of(llama(), TOKENIZER).info
    trace = trace_of(prompt=512 + 16384, cached=16384, prefill=0.31, generated=128, per_token=0.0123, batch=4)
    made = Repetition(record(trace), (12.3, 15.4))
    tests = [test_result(Plan(512, 128, 2, 0, depth=depth, batch=4), [made, made]) for depth in (512, 16384)]
    assert table_width(bench_result(info, this_host(), tests)) <= 80
