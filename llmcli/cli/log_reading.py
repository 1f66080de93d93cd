"""Reading the log for a command: what is empty or damaged is said on stderr."""

import contextlib
from collections.abc import Iterable, Iterator

from llmcli import console, paths
from llmcli.metrics.record import RequestRecord
from llmcli.metrics.request_log import LogReader, Row, Selection, open_reader
from llmcli.units import some


@contextlib.contextmanager
def reading() -> Iterator[LogReader | None]:
    """A reader, None when nothing has been logged yet, which is said. Raises LogUnusable."""
    with open_reader(paths.log_file()) as log:
        if log is not None and log.newest(Selection(), 1):
            yield log
            return
        console.say(f"no request has been logged yet ({paths.display(paths.log_file())})")
        yield None


def records_of(rows: Iterable[Row]) -> Iterator[RequestRecord]:
    """The records of rows; those that cannot be read are left out, and named at the end."""
    damaged: list[str] = []
    for row in rows:
        record = row.record()
        if record is None:
            damaged.append(row.id)
        else:
            yield record
    say_damaged(damaged)


def say_damaged(ids: list[str]) -> None:
    """Name the rows that cannot be read."""
    if ids:
        what = "1 row of the log cannot be read and is" if len(ids) == 1 else f"{len(ids)} rows cannot be read and are"
        console.say(f"notice: {what} left out: {some(ids)}")


def say_no_match(log: LogReader, selection: Selection) -> None:
    """Say that no request was chosen; with a model that the log does not have, which it has."""
    models = log.models()
    if selection.model is not None and selection.model not in models:
        console.say(f"no request of {selection.model} is in the log; it has requests of {some(models)}")
    else:
        console.say("no request in the log matches")
