"""One bench from plan to table: load, measure, show."""

from dataclasses import dataclass
from pathlib import Path

from llmcli import console
from llmcli.bench.plan import Plan, require_context
from llmcli.bench.render import TABLE_WIDTH, lines, table, title, unstable
from llmcli.bench.result import BenchResult, Repetition, bench_result, test_result
from llmcli.bench.run import run_plan
from llmcli.chat.interrupt import cancel_on_interrupt
from llmcli.cli.figures import table as figures
from llmcli.cli.opening import find, open_engine
from llmcli.cli.options import ModelOptions, TableFormat
from llmcli.errors import Interrupted
from llmcli.metrics.explain import rows
from llmcli.metrics.host import this_host
from llmcli.metrics.record import to_json


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one call of `llmcli bench` asks for."""

    model: str | None
    registry: Path | None
    loading: ModelOptions
    plan: Plan
    output: TableFormat
    explain: bool


def measure(measurement: Measurement) -> None:
    """Measure and show; an interrupt keeps the repetitions that were complete, and is raised after them."""
    plan = measurement.plan
    located = find(measurement.model, measurement.registry)
    if located.entry and located.entry.context:
        require_context(plan, located.entry.context, located.name)
    engine = open_engine(located, measurement.loading, quiet=True)
    require_context(plan, engine.info.context_limit, engine.info.name)
    repetitions: list[Repetition] = []
    with cancel_on_interrupt() as cancel:
        with console.progress(f"bench {plan.name}", unit="tok") as report:
            repetitions.extend(run_plan(engine, plan, engine.special_ids, cancel, report))
        interrupted = cancel.is_set()
    engine.close()
    if repetitions:
        test = test_result(plan, repetitions)
        _show(measurement, bench_result(engine.info, this_host(), [test]), repetitions)
    if interrupted:
        console.say(f"interrupted after {len(repetitions)} of {plan.repeats} repetitions")
        raise Interrupted


def _show(measurement: Measurement, result: BenchResult, repetitions: list[Repetition]) -> None:
    if measurement.output is TableFormat.json:
        console.write(to_json(result))
    else:
        console.write_line(title(result))
        if console.columns() < TABLE_WIDTH:
            console.write_line(lines(result))
        else:
            console.show(table(result))
    for notice in filter(None, map(unstable, result.tests)):
        console.say(f"notice: {notice}")
    if measurement.explain:
        middle = sorted(repetitions, key=lambda repetition: repetition.record.seconds.total)[len(repetitions) // 2]
        console.say("The figures of the median repetition:\n" + figures(rows(middle.record), meanings=True))
