"""All tests of one load, one after the other: one that runs out of memory does not end the others."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from llmcli.bench.plan import Plan
from llmcli.bench.result import Repetition, TestResult, test_result
from llmcli.bench.run import Report, run_plan, work
from llmcli.errors import LlmcliError, OutOfMemory, UsageError
from llmcli.inference import Cancel, Engine
from llmcli.metrics.record import RequestRecord


@dataclass(frozen=True, slots=True)
class Measured:
    """A test, its complete repetitions, and what ended it before the last one."""

    plan: Plan
    repetitions: tuple[Repetition, ...]
    error: LlmcliError | None = None

    @property
    def result(self) -> TestResult:
        """Its figures."""
        return test_result(self.plan, self.repetitions, self.error)

    @property
    def complete(self) -> bool:
        """Whether every repetition is there."""
        return len(self.repetitions) == self.plan.repeats

    @property
    def median(self) -> Repetition:
        """The repetition whose total is in the middle; only where there is one."""
        return sorted(self.repetitions, key=lambda one: one.record.seconds.total)[len(self.repetitions) // 2]


def run_all(
    engine: Engine,
    plans: Sequence[Plan],
    special_ids: Collection[int],
    cancel: Cancel,
    report: Report,
    *,
    keep: Callable[[RequestRecord], None],
) -> Iterator[Measured]:
    """Yield each test as it ends, also one that was cut short.

    Memory that ran out, and what cannot be measured with this model, end one test; an interrupt or another failure all.
    report: tokens done and in all, over all tests. keep: takes the record of every repetition once it is complete.
    """
    total = sum(map(work, plans))
    before = 0
    for plan in plans:
        test = _measured(engine, plan, special_ids, cancel, _after(report, before, total), keep)
        yield test
        if cancel.is_set() or not (test.error is None or isinstance(test.error, (OutOfMemory, UsageError))):
            return
        before += work(plan)


def _after(report: Report, before: int, total: int) -> Report:
    return lambda done, _of_this_test: report(before + done, total)


def _measured(  # noqa: PLR0917 - what run_all got, for one test
    engine: Engine,
    plan: Plan,
    special_ids: Collection[int],
    cancel: Cancel,
    report: Report,
    keep: Callable[[RequestRecord], None],
) -> Measured:
    if plan.depth and not engine.info.cache_reuse:
        return Measured(plan, (), no_depth(engine.info.architecture, plan))
    repetitions: list[Repetition] = []
    try:
        for repetition in run_plan(engine, plan, special_ids, cancel, report):
            repetitions.append(repetition)  # what is complete is kept when the next one fails
            keep(repetition.record)
    except LlmcliError as error:
        return Measured(plan, tuple(repetitions), error)
    return Measured(plan, tuple(repetitions))


def no_depth(architecture: str, plan: Plan) -> UsageError:
    """Why a test of some depth cannot be measured with a model whose cache is never continued."""
    return UsageError(
        f"--depth {plan.depth} cannot be measured: a request may not continue the cache of {architecture}",
        "Use --depth 0, with a longer --prompt-len.",
    )
