"""The answers about several models side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

from llmcli.estimate.render.answers import answers, gpus
from llmcli.estimate.render.bar import Bar, bar, legend, picture
from llmcli.estimate.render.columns import Column, table
from llmcli.estimate.render.figures import context_text, size_text
from llmcli.estimate.render.lines import Line, Paper, Span, cells, sentence, show, shown, stdout_paper
from llmcli.estimate.render.page import joined, warn
from llmcli.estimate.render.proof import proof
from llmcli.estimate.render.rows import size_layouts
from llmcli.estimate.report import Estimate, Row
from llmcli.units import count_text

_NAME = 28
_SHORT_NAME = 14


@dataclass(frozen=True, slots=True)
class NamedRow:
    """A row of one of the models."""

    name: str
    row: Row


def show_several(estimates: Sequence[Estimate]) -> None:
    """Print them on stdout and the warnings on stderr."""
    show(several(estimates, stdout_paper()))
    for one in estimates:
        warn(tuple(f"{one.model.name}: {text}" for text in one.warnings))


def several(estimates: Sequence[Estimate], paper: Paper) -> list[Line]:
    """The models, a table and a picture per context and batch, and what follows for each."""
    blocks = [_models(estimates, paper), gpus(estimates[0], paper)]
    drawn: list[Bar] = []
    most = max(_SHORT_NAME, min(_NAME, paper.width // 4))
    for (context, batch), rows in _settings(estimates).items():
        title = (Span(f"context {context}, batch {batch}", "bold"),)
        blocks.append([title, *_sizes(rows, paper)])
        bars = [bar(_cut(one.name, most), one.row) for one in rows]
        drawn += bars
        blocks.append(picture(bars, paper))
    blocks[-1] += legend(drawn, paper)
    blocks += [_told(one, paper) for one in estimates]
    return joined((*blocks, _assumptions(estimates, paper)))


def _models(estimates: Sequence[Estimate], paper: Paper) -> list[Line]:
    """One line per model: how large it is, and how its cache grows."""
    kvs = [one.kv for one in estimates]
    params = Column("parameters", tuple(count_text(one.model.params) for one in estimates))
    active = Column("active", tuple(count_text(one.model.active_params) for one in estimates))
    weights = Column("weights", tuple(size_text(one.rows[0].weights_bytes) for one in estimates))
    short = Column("KV bytes\nper token", tuple(str(kv.bytes_per_token_short) for kv in kvs))
    long = Column("in the\nlong run", tuple(str(kv.bytes_per_token_asymptotic) for kv in kvs))
    fixed = Column("fixed", tuple(size_text(kv.fixed_bytes) if kv.fixed_bytes else "-" for kv in kvs))
    longest = _longest(estimates)
    names = [
        Column("model", tuple(_cut(one.model.name, most) for one in estimates), left=True)
        for most in (_NAME, _SHORT_NAME)
    ]
    choices = (
        (params, active, weights, short, long, fixed, *longest),
        (params, weights, short, long, *longest),
        (weights, short, *longest),
        (weights, *longest),
    )
    lines = table([(name, *choice) for choice in choices for name in names], paper.width)
    return [*lines, *_inexact(estimates, paper)]


def _longest(estimates: Sequence[Estimate]) -> tuple[Column, ...]:
    if all(one.max_context is None for one in estimates):
        return ()
    batch = max(row.batch for one in estimates for row in one.rows)
    heading = "longest\ncontext" if batch == 1 else f"longest\nat batch {batch}"
    return (Column(heading, tuple(context_text(one.max_context) if one.max_context else "-" for one in estimates)),)


def _inexact(estimates: Sequence[Estimate], paper: Paper) -> list[Line]:
    notes = (f"{one.model.name}: not exact: {reason}" for one in estimates for reason in one.kv.inexact)
    return [line for note in notes for line in sentence(note, paper, style="bold yellow")]


def _settings(estimates: Sequence[Estimate]) -> dict[tuple[int, int], list[NamedRow]]:
    """The rows of all models by context and batch, in the order of the first model that has them."""
    settings: dict[tuple[int, int], list[NamedRow]] = {}
    for one in estimates:
        for row in one.rows:
            settings.setdefault((row.context, row.batch), []).append(NamedRow(one.model.name, row))
    return settings


def _sizes(rows: Sequence[NamedRow], paper: Paper) -> list[Line]:
    names = [Column("model", tuple(_cut(one.name, most) for one in rows), left=True) for most in (_NAME, _SHORT_NAME)]
    layouts = size_layouts([one.row for one in rows])
    return table([(name, *layout) for layout in layouts for name in names], paper.width)


def _told(estimate: Estimate, paper: Paper) -> list[Line]:
    """What follows for one model, under its name."""
    lines = joined((answers(estimate, paper), proof(estimate, paper)))
    return [*sentence(estimate.model.name, paper, style="bold"), *lines] if lines else []


def _assumptions(estimates: Sequence[Estimate], paper: Paper) -> list[Line]:
    """What all have in common once, the rest with the model's name."""
    common = [note for note in estimates[0].assumptions if all(note in one.assumptions for one in estimates)]
    notes = [f"- {note}" for note in common]
    notes += [f"- {one.model.name}: {note}" for one in estimates for note in one.assumptions if note not in common]
    return [line for note in notes for line in sentence(note, paper)]


def _cut(name: str, most: int) -> str:
    """`name` in at most `most` columns, its middle left out: what differs stands at the ends."""
    name = shown(name)
    if cells(name) <= most:
        return name
    head, tail = (most - 1) // 2, most - 1 - (most - 1) // 2
    while head and cells(name[:head]) > (most - 1) // 2:
        head -= 1
    while tail and cells(name[-tail:]) > most - 1 - (most - 1) // 2:
        tail -= 1
    return f"{name[:head]}…{name[len(name) - tail :]}"
