"""The statistics of the log for people: per model, what takes the time, and how fast each phase is."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from llmcli import console
from llmcli.cli.log_view import local_time
from llmcli.console import without_controls
from llmcli.metrics.line import verdict
from llmcli.metrics.log_stats import Bucket, LogStats, ModelStats
from llmcli.metrics.log_sums import Totals
from llmcli.units import percent_text, rate_figure, seconds_figure, seconds_text

if TYPE_CHECKING:
    from rich.table import Table

_FULL = 76
"""Columns that the table of buckets needs; a narrower terminal gets fewer."""

_UNFINISHED = {"interrupted": "interrupted", "error": "failed", "memory": "out of memory"}


def show(stats: LogStats) -> None:
    """Print one block per model, the one that was waited for longest first."""
    console.write_line(_title(stats))
    for model in stats.models:
        console.write_line("\n" + _head(model))
        console.show(_phases(model.totals))
        console.write_line(_prompts(model.totals) + "\n")
        console.show(_buckets(model, narrow=console.columns() < _FULL))
    console.say("tok/s: all tokens ÷ all seconds of the requests that have the rate, never a mean of rates")
    if len(stats.commands) > 1:
        console.say("bench is counted too; `--command chat` leaves it out")


def _title(stats: LogStats) -> str:
    commands = ", ".join(f"{count} {name}" for name, count in stats.commands.items())
    ends = ", ".join(f"{count} {reason}" for reason, count in stats.finish_reasons.items())
    requests = "1 request" if stats.requests == 1 else f"{stats.requests} requests"
    dates = "" if stats.first is None else f", {local_time(stats.first)[:10]} to {local_time(stats.last or '')[:10]}"
    return without_controls(f"{requests} ({commands}){dates}\nended: {ends}")


def _head(model: ModelStats) -> str:
    weights = model.dtype if model.quant == "none" else f"{model.quant} ({model.dtype})"
    totals = model.totals
    share = verdict(totals.phases)
    phase = totals.phases.dominant
    takes = f"{phase} takes {share.removeprefix(phase).strip()} of your waiting"
    count = "1 request" if totals.requests == 1 else f"{totals.requests} requests"
    unfinished = [
        f"{model.finish_reasons[key]} {word}" for key, word in _UNFINISHED.items() if key in model.finish_reasons
    ]
    also = f" ({', '.join(unfinished)}: counted with what they did)" if unfinished else ""
    name = f"{model.name} · {weights} · {model.device}"
    return without_controls(f"{name}\n{takes}: {count}, {seconds_text(totals.seconds.total)}{also}")


def _phases(totals: Totals) -> "Table":
    """Seconds, share and tokens of each phase; those of decode are n-1 per request."""
    grid = _grid("phase", "seconds", "share", "tokens")
    shares, seconds = totals.phases.shares, totals.seconds
    other = max(0.0, seconds.total - seconds.prefill - (seconds.decode or 0.0))
    grid.add_row("prefill", seconds_figure(seconds.prefill), percent_text(shares.prefill), str(totals.tokens.evaluated))
    decode = (seconds_figure(seconds.decode or 0.0), percent_text(shares.decode), str(totals.decode.tokens))
    grid.add_row("decode", *decode)
    grid.add_row("other", seconds_figure(other), percent_text(shares.other), "")
    return grid


def _prompts(totals: Totals) -> str:
    cached = "-" if totals.cached_share is None else percent_text(totals.cached_share)
    return f"prompts: {totals.tokens.prompt} tokens, {cached} of them from the cache"


def _buckets(model: ModelStats, *, narrow: bool) -> "Table":
    grid = _grid("evaluated\ntokens", *(heading for heading, wide in _HEADINGS if not (narrow and wide)))
    rows = [(_range(bucket), bucket.totals) for bucket in model.buckets]
    if len(rows) > 1:
        rows.append(("all", model.totals))
    for label, totals in rows:
        cells = zip(_cells(totals), _HEADINGS, strict=True)
        grid.add_row(label, *(cell for cell, (_, wide) in cells if not (narrow and wide)))
    return grid


_HEADINGS = (
    ("requests", True),
    ("prefill\ns", True),
    ("prefill\ntok/s", False),
    ("decode\ns", True),
    ("decode\ntok/s", False),
    ("ttft s\np50", True),
    ("ttft s\np95", True),
    ("dominant", False),
)
"""Heading of a column, and whether a narrow terminal does without."""


def _cells(totals: Totals) -> Iterator[str]:
    yield str(totals.requests)
    yield seconds_figure(totals.seconds.prefill)
    yield "-" if totals.prefill.tps is None else rate_figure(totals.prefill.tps)
    yield seconds_figure(totals.seconds.decode or 0.0)
    yield "-" if totals.decode.tps is None else rate_figure(totals.decode.tps)
    yield "-" if totals.ttft.p50 is None else seconds_figure(totals.ttft.p50)
    yield "-" if totals.ttft.p95 is None else seconds_figure(totals.ttft.p95)
    yield f"{totals.phases.dominant.split(' ', maxsplit=1)[0]} {verdict(totals.phases).rsplit(' ', 2)[-2]} %"


def _range(bucket: Bucket) -> str:
    if bucket.most is None:
        return f"{bucket.least}+"
    return str(bucket.least) if bucket.least == bucket.most else f"{bucket.least}–{bucket.most}"


def _grid(first: str, *others: str) -> "Table":
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    grid.add_column(first, no_wrap=True, vertical="bottom")
    for name in others:
        grid.add_column(name, justify="right", no_wrap=True, vertical="bottom")
    return grid
