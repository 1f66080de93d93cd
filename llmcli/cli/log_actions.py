"""What the `llmcli log` commands do: choose, read, show."""

import re
from datetime import UTC, datetime

from llmcli import console
from llmcli.cli import log_view, stats_view
from llmcli.cli.log_reading import reading, records_of, say_no_match
from llmcli.cli.options import TableFormat
from llmcli.errors import LogUnusable, UsageError
from llmcli.metrics.log_stats import stats_of
from llmcli.metrics.record import SCHEMA
from llmcli.metrics.request_log import Row, Selection
from llmcli.metrics.since import parse_since

_PREFIX = re.compile(r"[0-9a-f]{4,32}")


def selection(since: str | None, model: str | None, command: str | None) -> Selection:
    """What the filter flags say. Raises UsageError."""
    moment = None if since is None else parse_since(since, datetime.now(UTC))
    return Selection(moment, model, None if command is None else str(command))


def list_requests(chosen: Selection, limit: int, output: TableFormat) -> None:
    """Print the newest requests, the newest last."""
    if limit < 1:
        raise UsageError(f"--limit {limit} is not allowed", "Allowed: a whole number from 1.")
    with reading() as log:
        rows = log.newest(chosen, limit) if log else []
        if log and not rows:
            say_no_match(log, chosen)
    records = list(records_of(rows))
    if output is TableFormat.json:
        console.write_json({"schema": "llmcli.log/1", "requests": records})
    elif records:
        console.show(log_view.request_table(records))


def show_last(command: str | None, output: TableFormat) -> None:
    """Print all figures of the newest request."""
    chosen = selection(None, None, command)
    with reading() as log:
        rows = log.newest(chosen, 1) if log else []
        if log and not rows:
            say_no_match(log, chosen)
    for row in rows:
        _show(row, output)


def show_request(request: str, output: TableFormat) -> None:
    """Print all figures of the one request whose id begins so. Raises UsageError when it is not exactly one."""
    prefix = request.strip().lower()
    if not _PREFIX.fullmatch(prefix):
        raise UsageError(f"{request!r} is no id", "Give at least 4 characters of one: `llmcli log list` shows them.")
    with reading() as log:
        rows = log.starting_with(prefix, 4) if log else []
    if not rows:
        raise UsageError(f"no request in the log has an id that begins with {prefix}", "`llmcli log list` shows them.")
    if len(rows) > 1:
        several = ", ".join(row.id[: len(prefix) + 4] for row in rows[:3]) + (", …" if len(rows) > 3 else "")
        raise UsageError(f"several requests have an id that begins with {prefix}", f"Give more of it: {several}")
    _show(rows[0], output)


def show_stats(chosen: Selection, output: TableFormat) -> None:
    """Print sums, shares and rates over the chosen requests."""
    with reading() as log:
        stats = stats_of(records_of(log.all(chosen)) if log else ())
        if log and not stats.requests:
            say_no_match(log, chosen)
    if output is TableFormat.json:
        console.write_json(stats)
    elif stats.requests:
        stats_view.show(stats)


def _show(row: Row, output: TableFormat) -> None:
    document, record = row.document(), row.record()
    if output is TableFormat.json and document is not None:
        console.write_json(document)
    elif record is not None:
        log_view.show(record)
    else:
        raise LogUnusable(f"the log's record of request {row.id} is damaged", f"Its row is no {SCHEMA}.")
