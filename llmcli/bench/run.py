"""The measurement: repetitions of one request with fresh random ids, on a cache that holds exactly what was asked for.

A test of depth D fills the cache with D ids, by a request of its own, before the clock of each repetition starts. The
repetition continues it: D ids are cached and all others are evaluated. Without a depth no cache is used.
"""

import random
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime

from llmcli.bench.plan import Plan
from llmcli.bench.result import Repetition
from llmcli.errors import UsageError
from llmcli.inference import Cancel, Engine, Finished, GenerateRequest, Piece, PrefillProgress, Sampling, Trace
from llmcli.metrics.phases import Delivery
from llmcli.metrics.rates import gaps_ms
from llmcli.metrics.record import record_of

Report = Callable[[int, int], None]
Count = Callable[[PrefillProgress | Piece], None]
Rows = tuple[tuple[int, ...], ...]


def run_plan(
    engine: Engine, plan: Plan, special_ids: Collection[int], cancel: Cancel, report: Report
) -> Iterator[Repetition]:
    """Yield each measured repetition as it ends; an interrupt ends the measurement, and only whole ones are yielded.

    report: tokens done and tokens in all, see `work`. Raises what ended a repetition that failed, and UsageError when
    the cache cannot be continued from the depth.
    """
    test = _Test(engine, plan, special_ids, cancel, _Counter(report, plan))
    for number in range(plan.warmup + plan.repeats):
        repetition = test.repeat()
        if repetition is None:
            return
        if number >= plan.warmup:
            yield repetition


def work(plan: Plan) -> int:
    """Tokens that progress counts: those of every repetition, warm-up included, and once the depth's."""
    return plan.depth + (plan.warmup + plan.repeats) * plan.tokens


class _Counter:
    """Turns the events of a test into progress over all of it."""

    def __init__(self, report: Report, plan: Plan) -> None:
        self._report = report
        self._total = work(plan)
        self._before = self._evaluated = self._generated = 0

    def count(self, event: PrefillProgress | Piece) -> None:
        if isinstance(event, PrefillProgress):
            self._evaluated = event.evaluated
        else:
            self._generated += 1
        self._report(self._before + self._evaluated + self._generated, self._total)

    def fill(self, event: PrefillProgress | Piece) -> None:
        """Count the prompt of a fill; the token that it is answered with is no work that was asked for."""
        if isinstance(event, PrefillProgress):
            self.count(event)

    def end(self, tokens: int) -> None:
        """`tokens` more are done, however many events there were."""
        self._before += tokens
        self._evaluated = self._generated = 0


def random_ids(count: int, vocab_size: int, special_ids: Collection[int]) -> tuple[int, ...]:
    """`count` fresh ids, none of them special: no prefix of one prompt begins another."""
    plain = [token_id for token_id in range(vocab_size) if token_id not in special_ids]
    return tuple(random.SystemRandom().choices(plain, k=count))


class _Test:
    """One test on an engine. The ids that the cache is filled with are the same in all of its repetitions."""

    def __init__(
        self, engine: Engine, plan: Plan, special_ids: Collection[int], cancel: Cancel, counter: _Counter
    ) -> None:
        self._engine = engine
        self._plan = plan
        self._special_ids = special_ids
        self._cancel = cancel
        self._counter = counter
        self._held = self._fresh(plan.depth)
        self._filled = False

    def repeat(self) -> Repetition | None:
        """One repetition; None when it was interrupted."""
        plan = self._plan
        if plan.depth and not self._fill():
            return None
        rows = tuple(held + fresh for held, fresh in zip(self._held, self._fresh(plan.prompt_len), strict=True))
        request = self._request(rows, plan.out_len)
        started_at = datetime.now(UTC)
        trace = self._run(request, self._counter.count)
        if trace is None:
            return None
        self._counter.end(plan.tokens)
        self._require_depth(trace)
        delivery = Delivery(None, self._engine.clock())
        record = record_of(self._engine.info, request, trace, delivery, command="bench", started_at=started_at)
        return Repetition(record, gaps_ms(trace.arrivals))

    def _fill(self) -> bool:
        """Have the cache hold the ids of the depth and no others; whether it does."""
        count: Count = self._ignore if self._filled else self._counter.fill
        if self._run(self._request(self._held, 1), count) is None:
            return False
        if not self._filled:
            self._counter.end(self._plan.depth)
        self._filled = True
        return True

    def _ignore(self, _event: PrefillProgress | Piece) -> None:
        """What a later fill does has been counted: most of it is in the cache still."""

    def _run(self, request: GenerateRequest, count: Count) -> Trace | None:
        """Run a request to its end; None when it was interrupted. Raises what it failed with."""
        for event in self._engine.generate(request, self._cancel):
            if isinstance(event, Finished):
                trace = event.trace
                break
            count(event)
        if trace.error is not None:
            raise trace.error
        return None if trace.finish_reason == "interrupted" else trace

    def _require_depth(self, trace: Trace) -> None:
        depth = self._plan.depth
        if trace.cached < depth:
            raise UsageError(
                f"{self._plan.name}: the cache served {trace.cached} of the {depth} tokens of its depth"
                + (f" ({trace.miss_reason})" if trace.miss_reason else ""),
                "This model's cache cannot be continued at that length: take another --depth or --prompt-len.",
            )

    def _request(self, rows: Rows, out_len: int) -> GenerateRequest:
        origins = {"temperature": "bench", "max_new_tokens": "flag"}
        sampling = Sampling(0.0, 1.0, 0, 0.0, 1.0, None, out_len, origins)
        reuse = self._plan.depth > 0
        return GenerateRequest(rows[0], sampling, ignore_eos=True, reuse_cache=reuse, beside=rows[1:])

    def _fresh(self, count: int) -> Rows:
        """`count` fresh ids for each sequence."""
        batch = self._plan.batch
        ids = random_ids(batch * count, self._engine.info.vocab_size, self._special_ids)
        return tuple(ids[row * count : (row + 1) * count] for row in range(batch))
