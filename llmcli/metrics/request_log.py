"""The request log: every request as a row in SQLite. No text of a prompt or an answer is in it.

The table `requests`, for `sqlite3 log.db` as well:

    seq              the order in which the rows were written
    id               32 hexadecimal digits
    started_at       UTC, `2025-01-31T13:05:07.042Z`; sorts as text
    command          `chat` or `bench`
    model, quant, dtype, device                what ran
    prompt, cached, evaluated, generated       tokens, sums over the sequences of a batch
    batch            how many sequences these are
    ttft, prefill, decode, total               seconds; null where the request did not come so far
    dominant, finish_reason                    as in the record
    record           the whole record, `llmcli.request/1`, as JSON

The columns repeat what a query asks for; the record is what `llmcli log` reads. Every writer opens the log for one
short transaction and closes it again, so that between two requests the log is one whole file that may be copied,
moved or deleted.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmcli.errors import EngineFault
from llmcli.metrics.log_file import TIMEOUT, open_for_reading, open_for_writing, sql_errors
from llmcli.metrics.record import SCHEMA, RequestRecord

if TYPE_CHECKING:
    from sqlite3 import Connection

_PAGE = 500
"""Rows that are read at once: a reader holds neither memory nor the log for longer."""

_COLUMNS = {
    "id": ("id",),
    "started_at": ("started_at",),
    "command": ("command",),
    **{name: ("model", name) for name in ("quant", "dtype", "device")},
    "model": ("model", "name"),
    **{name: ("tokens", name) for name in ("prompt", "cached", "evaluated", "generated", "batch")},
    **{name: ("seconds", name) for name in ("ttft", "prefill", "decode", "total")},
    "dominant": ("phases", "dominant"),
    "finish_reason": ("finish_reason",),
}
"""Column -> where its value stands in the record."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which requests: all that started at `since` or later, of one model, of one command; None is no condition."""

    since: datetime | None = None
    model: str | None = None
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its place, the request's id and the record as JSON text."""

    seq: int
    id: str
    text: str

    def document(self) -> dict[str, Any] | None:
        """The record as it is stored, None when it is no JSON object."""
        import msgspec

        try:
            document = msgspec.json.decode(self.text)
        except (msgspec.DecodeError, UnicodeError):
            return None
        return document if isinstance(document, dict) else None

    def record(self) -> RequestRecord | None:
        """The record, None when it is damaged or of another schema."""
        import msgspec

        try:
            record = msgspec.json.decode(self.text, type=RequestRecord)
        except (msgspec.DecodeError, UnicodeError):
            return None
        return record if record.schema == SCHEMA else None


class LogReader:
    """Reads rows, in the order in which they were written. Its methods raise LogUnusable."""

    def __init__(self, connection: "Connection", path: Path) -> None:
        self._connection = connection
        self._path = path

    def newest(self, selection: Selection, count: int) -> list[Row]:
        """The last `count` rows of the selection, the newest last."""
        where, values = _conditions(selection)
        return self._rows(f"{where} ORDER BY seq DESC LIMIT ?", (*values, count))[::-1]

    def all(self, selection: Selection) -> Iterator[Row]:
        """Every row of the selection that is there when reading begins, a page at a time."""
        where, values = _conditions(selection)
        with sql_errors(self._path):
            last = self._connection.execute("SELECT max(seq) FROM requests").fetchone()[0]
        seq = -1
        while rows := self._rows(
            f"{where} AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?", (*values, seq, last or 0, _PAGE)
        ):
            yield from rows
            seq = rows[-1].seq

    def starting_with(self, prefix: str, count: int) -> list[Row]:
        """Up to `count` rows whose id starts with `prefix`, which consists of hexadecimal digits."""
        return self._rows("WHERE id GLOB ? ORDER BY seq LIMIT ?", (f"{prefix}*", count))

    def models(self) -> list[str]:
        """The names of all models in the log, sorted."""
        with sql_errors(self._path):
            return [str(row[0]) for row in self._connection.execute("SELECT DISTINCT model FROM requests ORDER BY 1")]

    def _rows(self, tail: str, values: tuple[object, ...]) -> list[Row]:
        with sql_errors(self._path):
            found = self._connection.execute(f"SELECT seq, id, record FROM requests {tail}", values)  # noqa: S608
            return [Row(seq, str(id_), text if isinstance(text, str) else "") for seq, id_, text in found]


@contextlib.contextmanager
def open_reader(path: Path) -> Iterator[LogReader | None]:
    """A reader of the log, None when there is none yet. Raises LogUnusable."""
    with open_for_reading(path) as connection:
        yield None if connection is None else LogReader(connection, path)


def add(path: Path, record: RequestRecord, *, timeout: float = TIMEOUT) -> None:
    """Append a record, creating the log when there is none. timeout: seconds to wait for other processes.

    Raises LogUnusable when it cannot be written; what is there stays as it is.
    """
    import msgspec

    document = _without_text(_valid(msgspec.to_builtins(record)))
    values = {name: _at(document, place) for name, place in _COLUMNS.items()}
    values["record"] = msgspec.json.encode(document).decode()
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    with open_for_writing(path, timeout=timeout) as connection:
        connection.execute(f"INSERT INTO requests ({names}) VALUES ({marks})", tuple(values.values()))  # noqa: S608


def utc_text(moment: datetime) -> str:
    """A time as records write it: `2025-01-31T13:05:07.042Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _conditions(selection: Selection) -> tuple[str, tuple[object, ...]]:
    asked = {
        "started_at >= ?": utc_text(selection.since) if selection.since else None,
        "model = ?": selection.model,
        "command = ?": selection.command,
    }
    given = {condition: value for condition, value in asked.items() if value is not None}
    return " AND ".join(("WHERE 1", *given)), tuple(given.values())


def _at(document: Any, place: tuple[str, ...]) -> Any:
    for name in place:
        document = document[name]
    return document


def _valid(value: Any) -> Any:
    """`value` with lone surrogates (bytes of a path or an argument that are no UTF-8) replaced: no text holds them."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_valid(key): _valid(item) for key, item in value.items()}
    return [_valid(item) for item in value] if isinstance(value, (list, tuple)) else value


def _without_text(document: dict[str, Any]) -> dict[str, Any]:
    """`document` without the words of a foreign exception, which may quote what it failed at: its name is kept."""
    error = document["error"]
    if error is None or error["type"] != EngineFault.__name__:
        return document
    return {**document, "error": {**error, "message": ": ".join(error["message"].split(": ")[:2])}}
