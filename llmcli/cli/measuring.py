"""One bench from plans to tables: load the model in each way that was asked for, measure, show."""

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from llmcli import console
from llmcli.bench.plan import Plan, longest, require_context
from llmcli.bench.result import BenchResult, bench_result
from llmcli.bench.run_all import Measured, no_depth, run_all
from llmcli.chat.interrupt import Cancellation, cancel_on_interrupt
from llmcli.cli.bench_view import explain, say_notices, show_json, show_tables
from llmcli.cli.compiling import compile_first
from llmcli.cli.fetching import find
from llmcli.cli.opening import load_engine, load_request
from llmcli.cli.options import ModelOptions, TableFormat
from llmcli.cli.recording import Recorder
from llmcli.errors import LlmcliError, OutOfMemory, UsageError
from llmcli.inference import LoadRequest
from llmcli.load_rules import batch_notice
from llmcli.metrics.host import this_host

if TYPE_CHECKING:
    from llmcli.engine.local import LocalEngine


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one call of `llmcli bench` asks for: `plans` are measured with each of `loadings`."""

    model: str | None
    registry: Path | None
    loadings: tuple[ModelOptions, ...]
    plans: tuple[Plan, ...]
    output: TableFormat
    explain: bool
    log: bool = True


def measure(measurement: Measurement) -> None:
    """Measure and show; what interrupts or fails is raised after all that is complete has been shown."""
    asked = measurement.loadings[0]
    if notice := batch_notice((plan.batch for plan in measurement.plans), asked.speculate, asked.draft):
        console.say(f"notice: {notice}")
    requests = _requests(measurement)
    bench = _Bench(measurement, len(requests))
    try:
        for request in requests:
            bench.add(request)
            gc.collect()  # the next model needs the memory of this one, whatever refers to it in a circle
    finally:
        bench.close()
    bench.end()


def _requests(measurement: Measurement) -> list[LoadRequest]:
    """All loads, checked and known to fit before the first one begins."""
    located = find(measurement.model, measurement.registry)
    if located.entry and located.entry.context:
        require_context(longest(measurement.plans), located.entry.context, located.name)
    return [load_request(located, loading) for loading in measurement.loadings]


def prepare_engine(engine: "LocalEngine", plans: Sequence[Plan]) -> None:
    """What has to be done and checked between load and measurement. Raises UsageError for what cannot be measured."""
    require_context(longest(plans), engine.info.context_limit, engine.info.name)
    if not engine.info.cache_reuse and all(plan.depth for plan in plans):
        raise no_depth(engine.info.architecture, plans[0])
    for rows in dict.fromkeys(plan.batch for plan in plans):
        compile_first(engine, rows)


class _Bench:
    """The loads that have been measured so far, and what failed in them."""

    def __init__(self, measurement: Measurement, loads: int) -> None:
        self._measurement = measurement
        self._loads = loads
        self._begun = 0
        self._results: list[BenchResult] = []
        self._failures: list[LlmcliError] = []

    def add(self, request: LoadRequest) -> None:
        """Load, measure and show. Raises what ends the whole bench, after it has been shown."""
        self._begun += 1
        if self._loads > 1:
            console.say(f"load {self._begun} of {self._loads}: {_flags(request)}", style="dim")
        try:
            engine = load_engine(request, announced=False)  # the title of the table says it
            prepare_engine(engine, self._measurement.plans)
        except OutOfMemory as error:
            if self._loads == 1:
                raise
            console.say(f"notice: {_flags(request)} failed: {error.message}")
            for _ in self._measurement.plans:
                self._fail(error)
            return
        tests, cancel = self._run(engine)
        engine.close()
        self._show(engine, request, tests)
        for test in tests:
            if test.error is not None:
                self._fail(test.error)
        if cancel.is_set():
            cancel.end()

    def _fail(self, error: LlmcliError) -> None:
        """Keep the failure of one of several tests; raise one that ends all of them."""
        alone = self._loads * len(self._measurement.plans) == 1
        if alone or not isinstance(error, (OutOfMemory, UsageError)):
            raise error
        self._failures.append(type(error)(error.message, error.hint))  # without its frames, which hold the model

    def _run(self, engine: "LocalEngine") -> tuple[list[Measured], Cancellation]:
        plans = self._measurement.plans
        recorder = Recorder(enabled=self._measurement.log, at_once=False)  # the progress bar has the screen
        label = f"bench {plans[0].name}" if len(plans) == 1 else f"bench {len(plans)} tests"
        with cancel_on_interrupt() as cancel, console.progress(label, unit="tok") as report:
            tests = list(run_all(engine, plans, engine.special_ids, cancel, report, keep=recorder.add))
        recorder.close()
        return tests, cancel

    def _show(self, engine: "LocalEngine", request: LoadRequest, tests: Sequence[Measured]) -> None:
        asked = {"quant": request.quant, "decode": request.decode}
        shown = [test.result for test in tests if test.repetitions or test.error is not None]
        result = bench_result(engine.info, this_host(), shown, asked)
        if self._measurement.output is TableFormat.table and _has_figures(result):
            show_tables(result, next(filter(_has_figures, self._results), None))
        self._results.append(result)
        say_notices(result, tests, planned=len(self._measurement.plans))
        if self._measurement.explain:
            explain(tests)

    def close(self) -> None:
        """Print what is printed in one piece."""
        if self._results and self._measurement.output is TableFormat.json:
            show_json(self._results, several=self._loads > 1)

    def end(self) -> None:
        """Raise the error that tells how many tests could not be measured, if any."""
        failures = self._failures
        if not failures:
            return
        memory = [error for error in failures if isinstance(error, OutOfMemory)]
        if memory:
            raise OutOfMemory(f"{_count(len(memory))} ran out of memory", memory[0].hint)
        raise UsageError(f"{_count(len(failures))} could not be measured", failures[0].hint)


def _has_figures(result: BenchResult) -> bool:
    return any(test.repeats for test in result.tests)


def _count(tests: int) -> str:
    return "1 test" if tests == 1 else f"{tests} tests"


def _flags(request: LoadRequest) -> str:
    return f"--quant {request.quant} --decode {request.decode}"
