"""How a bench is shown: on stdout the tables or the JSON, on stderr what is to be said about them."""

from collections.abc import Sequence

from llmcli import console
from llmcli.bench.render import difference, lines, table, table_width, title, unstable
from llmcli.bench.result import SEVERAL, BenchResult, BenchResults
from llmcli.bench.run_all import Measured
from llmcli.cli.figures import table as figures
from llmcli.metrics.explain import rows


def show_tables(result: BenchResult, first: BenchResult | None) -> None:
    """Print what one load was measured with, in full or as it differs from the `first` load, and its tests."""
    console.write_line(title(result) if first is None else f"\n{difference(result, first)}")
    if console.columns() < table_width(result):
        console.write_line(lines(result))
    else:
        console.show(table(result))


def show_json(results: Sequence[BenchResult], *, several: bool) -> None:
    """Print the one result, or with `several` a document that holds any number of them."""
    console.write_json(BenchResults(SEVERAL, tuple(results)) if several else results[0])


def say_notices(result: BenchResult, tests: Sequence[Measured], *, planned: int) -> None:
    """Say which tests are unstable, which failed, and where the measurement of `planned` tests ended early."""
    if notice := unstable(result.tests):
        console.say(f"notice: {notice}")
    if planned == 1:
        ended = tests[0]
        if not ended.complete:
            console.say(f"ended after {len(ended.repetitions)} of {ended.plan.repeats} repetitions")
        return
    for test in tests:
        if test.error is not None:
            console.say(f"notice: {test.plan.name} failed: {test.error.message}")
    last = tests[-1]
    if len(tests) < planned or (not last.complete and last.error is None):
        console.say(
            f"ended in test {len(tests)} of {planned}, "
            f"after {len(last.repetitions)} of {last.plan.repeats} repetitions of {last.plan.name}"
        )


def explain(tests: Sequence[Measured]) -> None:
    """Define every figure with those of one repetition: the median one of the first test that has any."""
    test = next((test for test in tests if test.repetitions), None)
    if test is None:
        return
    name = f" of {test.plan.name}" if len(tests) > 1 else ""
    console.say(f"The figures of the median repetition{name}:\n{figures(rows(test.median.record), meanings=True)}")
