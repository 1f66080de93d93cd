"""How a request's figures are shown: a line, a table, a table with definitions."""

from llmcli import console
from llmcli.cli.options import Stats
from llmcli.metrics.explain import Row, rows
from llmcli.metrics.line import phase_line
from llmcli.metrics.record import RequestRecord


def show_figures(record: RequestRecord, stats: Stats, *, explain: bool) -> None:
    """Print on stderr what `--stats` and `--explain` ask for."""
    if explain or stats is Stats.full:
        console.say(table(rows(record), meanings=explain))
    if stats is not Stats.off:
        console.say(phase_line(record), style="dim")


def table(figures: tuple[Row, ...], *, meanings: bool) -> str:
    """Words and values in two aligned columns; with `meanings`, what each means."""
    word = max(len(row.word) for row in figures)
    value = max(len(row.value) for row in figures)
    return "\n".join(
        f"{row.word:<{word}}  {row.value:>{value}}" + (f"  {row.meaning}" if meanings else "") for row in figures
    )
