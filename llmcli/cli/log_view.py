"""Logged requests for people: one row each, or all figures of one."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from llmcli import console
from llmcli.cli.columns import Column, Layout, fitting
from llmcli.cli.figures import table
from llmcli.console import without_controls
from llmcli.metrics.explain import rows
from llmcli.metrics.line import RATE_FROM, phase_line, weights_format
from llmcli.metrics.record import RequestRecord
from llmcli.units import rate_figure, seconds_figure

if TYPE_CHECKING:
    from rich.table import Table

_ID = 8
"""Characters of an id that are shown."""

_HEADINGS = {
    "id": "id",
    "time": "time",
    "command": "cmd",
    "model": "model",
    "prompt": "prompt\n(cached)",
    "prefill": "prefill\ns tok/s",
    "ttft": "ttft\ns",
    "decode": "decode\ns tok/s",
    "total": "total\ns",
    "dominant": "dominant",
}
_LEFT = {"id", "time", "command", "model", "dominant"}
_LEAST_MODEL = 6
_NARROW = (
    ("id", "time", "model", "prompt", "prefill", "decode", "total", "dominant"),
    ("id", "time", "model", "prefill", "decode", "total", "dominant"),
    ("id", "time", "prompt", "total", "dominant"),
    ("id", "time", "total", "dominant"),
)
"""What is shown where there is less and less room."""


def request_table(records: Sequence[RequestRecord]) -> "Table":
    """One row per request; a narrow terminal gets fewer columns, a wide one the whole date and verdict."""
    layouts = [_layout(tuple(_HEADINGS), records, wide=True), _layout(tuple(_HEADINGS), records, wide=False)]
    layouts += [_layout(names, records, wide=False) for names in _NARROW]
    return fitting(layouts, console.columns())


def _layout(names: Sequence[str], records: Sequence[RequestRecord], *, wide: bool) -> Layout:
    rows = [_cells(record, wide=wide) for record in records]
    return Layout(tuple(_column(name, rows) for name in names), gap=2 if wide else 1)


def _column(name: str, rows: Sequence[dict[str, str]]) -> Column:
    cells = tuple(without_controls(row[name]) for row in rows)
    least = _LEAST_MODEL if name == "model" else None
    return Column(_HEADINGS[name], cells, "left" if name in _LEFT else "right", least)


def _cells(record: RequestRecord, *, wide: bool) -> dict[str, str]:
    tokens, seconds, rates = record.tokens, record.seconds, record.rates
    dominant = record.phases.dominant
    return {
        "id": record.id[:_ID],
        "time": local_time(record.started_at) if wide else _short_time(record.started_at),
        "command": record.command,
        "model": record.model.name,
        "prompt": f"{tokens.prompt} ({tokens.cached})" if tokens.cached else str(tokens.prompt),
        "prefill": _phase(seconds.prefill, rates.prompt_eval_tps if tokens.evaluated >= RATE_FROM else None),
        "ttft": _seconds(seconds.ttft),
        "decode": _phase(seconds.decode, rates.generation_tps),
        "total": _seconds(seconds.total),
        "dominant": dominant if wide else dominant.split(" ", maxsplit=1)[0],
    }


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else seconds_figure(seconds)


def _phase(seconds: float | None, rate: float | None) -> str:
    return f"{_seconds(seconds)} {'-' if rate is None else rate_figure(rate):>4}"


def show(record: RequestRecord) -> None:
    """Print all figures of one request on stdout, and the phase line."""
    model = record.model
    console.write_line(without_controls(f"request {record.id}"))
    console.write_line(without_controls(f"{record.command}, {local_time(record.started_at)}"))
    facts = (model.name, weights_format(model), model.device, model.attention, model.decode_path)
    console.write_line(without_controls(f"{' · '.join(facts)} · context {model.context_limit}"))
    console.write_line(f"from {without_controls(model.source)}\n")
    console.write_line(table(rows(record), meanings=False))
    console.write_line(f"\n{without_controls(phase_line(record))}")
    if record.error is not None:
        console.write_line(without_controls(f"{record.error.type}: {record.error.message}"))


def local_time(stamp: str) -> str:
    """A UTC stamp in the time of this machine: `2025-01-31 14:05:07`; what is no time is shown as it is."""
    moment = _moment(stamp)
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment else stamp


def _short_time(stamp: str) -> str:
    """In six characters: the time of today, else the day, else the year."""
    moment = _moment(stamp)
    if moment is None:
        return stamp[:6]
    now = datetime.now().astimezone()
    if moment.date() == now.date():
        return f"{moment:%H:%M}"
    return f"{moment:%m-%d}" if moment.year == now.year else f"{moment:%Y}"


def _moment(stamp: str) -> datetime | None:
    try:
        return datetime.fromisoformat(stamp).astimezone()
    except (ValueError, OverflowError, OSError):
        return None
