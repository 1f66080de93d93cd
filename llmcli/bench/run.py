"""The measurement: repetitions of one request with fresh random ids, the cache never used."""

import random
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime

from llmcli.bench.plan import Plan
from llmcli.bench.result import Repetition
from llmcli.inference import Cancel, Engine, Finished, GenerateRequest, Piece, PrefillProgress, Sampling
from llmcli.metrics.phases import Delivery
from llmcli.metrics.rates import gaps_ms
from llmcli.metrics.record import record_of

Report = Callable[[int, int], None]


def run_plan(
    engine: Engine, plan: Plan, special_ids: Collection[int], cancel: Cancel, report: Report
) -> Iterator[Repetition]:
    """Yield each measured repetition as it ends; an interrupt ends the measurement, and only whole ones are yielded.

    report: tokens done and tokens in all, warm-up included. Raises what ended a repetition that failed.
    """
    rounds = plan.warmup + plan.repeats
    for number in range(rounds):
        repetition = _repeat(engine, plan, special_ids, cancel, _Counter(report, plan, number, rounds))
        if repetition is None:
            return
        if number >= plan.warmup:
            yield repetition


class _Counter:
    """Turns one repetition's events into progress over all of them."""

    def __init__(self, report: Report, plan: Plan, number: int, rounds: int) -> None:
        self._report = report
        self._start = number * plan.tokens
        self._total = rounds * plan.tokens
        self._evaluated = 0
        self._generated = 0

    def count(self, event: PrefillProgress | Piece) -> None:
        if isinstance(event, PrefillProgress):
            self._evaluated = event.evaluated
        else:
            self._generated += 1
        self._report(self._start + self._evaluated + self._generated, self._total)


def random_ids(count: int, vocab_size: int, special_ids: Collection[int]) -> tuple[int, ...]:
    """`count` fresh ids, none of them special: no prefix of one prompt begins another."""
    plain = [token_id for token_id in range(vocab_size) if token_id not in special_ids]
    return tuple(random.SystemRandom().choices(plain, k=count))


def _repeat(
    engine: Engine, plan: Plan, special_ids: Collection[int], cancel: Cancel, counter: _Counter
) -> Repetition | None:
    ids = random_ids(plan.prompt_len, engine.info.vocab_size, special_ids)
    sampling = Sampling(0.0, 1.0, 0, 0.0, 1.0, None, plan.out_len, {"temperature": "bench", "max_new_tokens": "flag"})
    request = GenerateRequest(ids, sampling, ignore_eos=True)
    started_at = datetime.now(UTC)
    for event in engine.generate(request, cancel):
        if isinstance(event, Finished):
            trace = event.trace
            break
        counter.count(event)
    if trace.error is not None:
        raise trace.error
    if trace.finish_reason == "interrupted":
        return None
    record = record_of(
        engine.info, request, trace, Delivery(None, engine.clock()), command="bench", started_at=started_at
    )
    return Repetition(record, gaps_ms(trace.arrivals))
