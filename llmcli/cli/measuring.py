"""One bench from plan to table: load, measure, show."""

from dataclasses import dataclass
from pathlib import Path

from llmcli import console
from llmcli.bench.plan import Plan, require_context
from llmcli.bench.render import TABLE_WIDTH, lines, table, title, unstable
from llmcli.bench.result import BenchResult, Repetition, bench_result, test_result
from llmcli.bench.run import run_plan
from llmcli.chat.interrupt import cancel_on_interrupt
from llmcli.cli.fetching import find
from llmcli.cli.figures import table as figures
from llmcli.cli.opening import open_engine
from llmcli.cli.options import ModelOptions, TableFormat
from llmcli.cli.recording import Recorder
from llmcli.errors import LlmcliError
from llmcli.metrics.explain import rows
from llmcli.metrics.host import this_host


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one call of `llmcli bench` asks for."""

    model: str | None
    registry: Path | None
    loading: ModelOptions
    plan: Plan
    output: TableFormat
    explain: bool
    log: bool = True


def measure(measurement: Measurement) -> None:
    """Measure and show; what interrupts or fails is raised after the complete repetitions have been shown."""
    plan = measurement.plan
    located = find(measurement.model, measurement.registry)
    if located.entry and located.entry.context:
        require_context(plan, located.entry.context, located.name)
    engine = open_engine(located, measurement.loading, announced=False)  # the title of the table says it
    require_context(plan, engine.info.context_limit, engine.info.name)
    repetitions: list[Repetition] = []
    failed: LlmcliError | None = None
    recorder = Recorder(enabled=measurement.log, at_once=False)  # the progress bar has the screen
    with cancel_on_interrupt() as cancel, console.progress(f"bench {plan.name}", unit="tok") as report:
        try:
            for repetition in run_plan(engine, plan, engine.special_ids, cancel, report):
                repetitions.append(repetition)  # what is complete is kept when the next one fails
                recorder.add(repetition.record)
        except LlmcliError as error:
            failed = error
    engine.close()
    recorder.close()
    if repetitions or measurement.output is TableFormat.json:
        tests = [test_result(plan, repetitions)] if repetitions else []
        _show(measurement, bench_result(engine.info, this_host(), tests), repetitions)
    if len(repetitions) < plan.repeats:
        console.say(f"ended after {len(repetitions)} of {plan.repeats} repetitions")
    if failed is not None:
        raise failed
    if cancel.is_set():
        cancel.end()


def _show(measurement: Measurement, result: BenchResult, repetitions: list[Repetition]) -> None:
    if measurement.output is TableFormat.json:
        console.write_json(result)
    else:
        console.write_line(title(result))
        if console.columns() < TABLE_WIDTH:
            console.write_line(lines(result))
        else:
            console.show(table(result))
    for notice in filter(None, map(unstable, result.tests)):
        console.say(f"notice: {notice}")
    if measurement.explain and repetitions:
        middle = sorted(repetitions, key=lambda repetition: repetition.record.seconds.total)[len(repetitions) // 2]
        console.say("The figures of the median repetition:\n" + figures(rows(middle.record), meanings=True))
