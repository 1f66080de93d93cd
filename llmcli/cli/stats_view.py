"""The statistics of the log for people: per model, what takes the time, and how fast each phase is."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from llmcli import console
from llmcli.cli.columns import Column, Layout, fitting
from llmcli.cli.log_view import local_time
from llmcli.console import without_controls
from llmcli.metrics.log_stats import Bucket, LogStats, ModelStats
from llmcli.metrics.log_sums import Rate, Totals
from llmcli.metrics.record import Phases
from llmcli.units import percent_text, rate_figure, seconds_figure, seconds_text

if TYPE_CHECKING:
    from rich.table import Table

_UNFINISHED = {"interrupted": "interrupted", "error": "failed", "memory": "out of memory"}


def show(stats: LogStats) -> None:
    """Print one block per model, the one that was waited for longest first."""
    console.write_line(_title(stats))
    for model in stats.models:
        console.write_line("\n" + _head(model))
        console.show(_phases(model.totals))
        console.write_line(_prompts(model.totals) + "\n")
        console.show(_buckets(model))
    console.say("tok/s: all tokens ÷ all seconds of the requests that have the rate, never a mean of rates")
    if len(stats.commands) > 1:
        console.say("bench is counted too; `--command chat` leaves it out")


def _title(stats: LogStats) -> str:
    commands = ", ".join(f"{count} {name}" for name, count in stats.commands.items())
    ends = ", ".join(f"{count} {reason}" for reason, count in stats.finish_reasons.items())
    requests = "1 request" if stats.requests == 1 else f"{stats.requests} requests"
    days = dict.fromkeys(local_time(stamp)[:10] for stamp in (stats.first, stats.last) if stamp is not None)
    return without_controls(f"{requests} ({commands}), {' to '.join(days)}\nended: {ends}")


def _head(model: ModelStats) -> str:
    weights = model.dtype if model.quant == "none" else f"{model.quant} ({model.dtype})"
    totals = model.totals
    takes = f"{totals.phases.dominant} takes {percent_text(_share(totals.phases))} of your waiting"
    count = "1 request" if totals.requests == 1 else f"{totals.requests} requests"
    ended = model.finish_reasons
    unfinished = ", ".join(f"{ended[reason]} {word}" for reason, word in _UNFINISHED.items() if reason in ended)
    also = f" ({unfinished}: counted with what they did)" if unfinished else ""
    name = f"{model.name} · {weights} · {model.device}"
    return without_controls(f"{name}\n{takes}: {count}, {seconds_text(totals.seconds.total)}{also}")


def _phases(totals: Totals) -> "Table":
    """Seconds, share and tokens of each phase; those of decode are n-1 per request."""
    shares, seconds = totals.phases.shares, totals.seconds
    decode = seconds.decode or 0.0
    other = max(0.0, seconds.total - seconds.prefill - decode)
    columns = (
        Column("phase", ("prefill", "decode", "other"), "left"),
        Column("seconds", tuple(map(seconds_figure, (seconds.prefill, decode, other)))),
        Column("share", tuple(map(percent_text, (shares.prefill, shares.decode, shares.other)))),
        Column("tokens", (str(totals.tokens.evaluated), str(totals.decode.tokens), "")),
    )
    return fitting([Layout(columns)], console.columns())


def _prompts(totals: Totals) -> str:
    cached = "-" if totals.cached_share is None else percent_text(totals.cached_share)
    return f"prompts: {totals.tokens.prompt} tokens, {cached} of them from the cache"


def _buckets(model: ModelStats) -> "Table":
    rows = [(_range(bucket), bucket.totals) for bucket in model.buckets]
    if len(rows) > 1:
        rows.append(("all", model.totals))
    columns = {
        name: Column(name, tuple(cell(label, totals) for label, totals in rows), "left" if name in _LEFT else "right")
        for name, cell in _CELLS.items()
    }
    rates = tuple(columns[name] for name in _RATES)
    every = tuple(columns.values())
    return fitting([Layout(every), Layout(every, gap=1), Layout(rates), Layout(rates, gap=1)], console.columns())


def _range(bucket: Bucket) -> str:
    if bucket.most is None:
        return f"{bucket.least}+"
    return str(bucket.least) if bucket.least == bucket.most else f"{bucket.least}–{bucket.most}"


def _rate(rate: Rate) -> str:
    return "-" if rate.tps is None else rate_figure(rate.tps)


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else seconds_figure(seconds)


def _phase(phases: Phases) -> str:
    return phases.dominant.split(" ", maxsplit=1)[0]


def _share(phases: Phases) -> float:
    share: float = getattr(phases.shares, _phase(phases))
    return share


_CELLS: dict[str, Callable[[str, Totals], str]] = {
    "evaluated\ntokens": lambda label, _: label,
    "requests": lambda _, totals: str(totals.requests),
    "prefill\ns": lambda _, totals: seconds_figure(totals.seconds.prefill),
    "prefill\ntok/s": lambda _, totals: _rate(totals.prefill),
    "decode\ns": lambda _, totals: _seconds(totals.seconds.decode),
    "decode\ntok/s": lambda _, totals: _rate(totals.decode),
    "ttft s\np50": lambda _, totals: _seconds(totals.ttft.p50),
    "ttft s\np95": lambda _, totals: _seconds(totals.ttft.p95),
    "dominant": lambda _, totals: f"{_phase(totals.phases)} {percent_text(_share(totals.phases))}",
}
"""Heading -> the cell of a bucket, from its range and its figures."""

_LEFT = {"evaluated\ntokens", "dominant"}
_RATES = ("evaluated\ntokens", "prefill\ntok/s", "decode\ntok/s", "dominant")
"""The columns that a narrow terminal shows."""
