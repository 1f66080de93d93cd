"""How a request's figures are shown: a line, a table, a table with definitions."""

import textwrap

from llmcli import console
from llmcli.cli.options import Stats
from llmcli.metrics.explain import Row, rows
from llmcli.metrics.line import phase_line
from llmcli.metrics.record import RequestRecord

LEAST_MEANING = 24
"""Characters a line that a column of definitions needs; where there are fewer, they go below."""


def show_figures(record: RequestRecord, stats: Stats, *, explain: bool) -> None:
    """Print on stderr what `--stats` and `--explain` ask for."""
    if explain or stats is Stats.full:
        console.say(table(rows(record), meanings=explain))
    if stats is not Stats.off:
        console.say(phase_line(record), style="dim")


def table(figures: tuple[Row, ...], *, meanings: bool) -> str:
    """Words and values in two aligned columns; with `meanings`, what each means, wrapped beside or below them."""
    word = max(len(row.word) for row in figures)
    value = max(len(row.value) for row in figures)
    width = console.error_columns()
    indent = word + value + 4 if width - word - value - 4 >= LEAST_MEANING else 4
    lines = []
    for row in figures:
        line = f"{row.word:<{word}}  {row.value:>{value}}"
        meaning = textwrap.wrap(row.meaning, width - indent) if meanings else []
        if meaning and indent > word + value:
            line += f"  {meaning.pop(0)}"
        lines += [line, *(" " * indent + rest for rest in meaning)]
    return "\n".join(lines)
