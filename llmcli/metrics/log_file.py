"""The file of the request log: what may be opened, how, and what is wrong with what may not.

A foreign or damaged file is recognized by its first bytes, before SQLite sees it, and never touched.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from llmcli.errors import LogUnusable
from llmcli.metrics.log_schema import APPLICATION_ID, STEPS, Step, migrate
from llmcli.paths import display

if TYPE_CHECKING:
    from sqlite3 import Connection, Error

TIMEOUT = 2.0
"""Seconds to wait for another process that holds the log."""

_MAGIC = b"SQLite format 3\x00"
_ID_AT = 68
"""Where an SQLite header holds the application id, as four bytes, the highest first."""

_MOVE = "Move it away, and a new log is begun."
_REASONS = {
    "BUSY": ("is locked by another process", "End the program that holds it, or wait for it."),
    "LOCKED": ("is locked by another process", "End the program that holds it, or wait for it."),
    "READONLY": ("is read-only", "Make file and directory writable."),
    "IOERR": ("cannot be read or written: disk error", "Look at the disk: full, over quota, or failing."),
    "CORRUPT": ("is damaged", _MOVE),
    "NOTADB": ("is damaged", _MOVE),
    "FULL": ("cannot be written: the disk is full", "Free some space."),
    "CANTOPEN": ("cannot be opened", "Look at the permissions of file and directory."),
}
"""SQLite's primary result code -> what it means for the log, and what to do."""


@contextlib.contextmanager
def open_for_writing(
    path: Path, *, timeout: float = TIMEOUT, steps: tuple[Step, ...] = STEPS
) -> Iterator["Connection"]:
    """A connection to the log of the newest schema version; what is missing is created, for the user only.

    The connection is in autocommit mode. Raises LogUnusable.
    """
    with _file_errors(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        _require_log(path)
    with sql_errors(path), contextlib.closing(_connect(path, "mode=rw", timeout)) as connection:
        migrate(connection, path, steps)
        _use_wal(connection, timeout)
        yield connection


@contextlib.contextmanager
def open_for_reading(
    path: Path, *, timeout: float = TIMEOUT, steps: tuple[Step, ...] = STEPS
) -> Iterator["Connection | None"]:
    """A connection that only reads, None when there is no log yet; an older log is migrated first.

    Raises LogUnusable.
    """
    with _file_errors(path):
        empty = not path.exists() or (path.is_file() and path.stat().st_size == 0)
        if not empty:
            _require_log(path)
    if empty:
        yield None
        return
    with sql_errors(path), contextlib.closing(_connect(path, _reading_mode(path), timeout)) as connection:
        migrate(connection, path, steps)
        connection.execute("PRAGMA query_only = ON")
        yield connection


@contextlib.contextmanager
def sql_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite says into LogUnusable."""
    try:
        import sqlite3
    except ImportError as error:  # some builds of Python come without
        raise LogUnusable("there is no request log: this Python has no sqlite3") from error
    try:
        yield
    except sqlite3.Error as error:
        raise _unusable(path, error) from error


@contextlib.contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what, hint = _REASONS["CANTOPEN"]
        raise LogUnusable(f"{display(path)} {what}: {error.strerror or error}", hint) from error


def _require_log(path: Path) -> None:
    """Raise LogUnusable unless `path` is an empty file or a log of llmcli."""
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for
        raise LogUnusable(f"{display(path)} is no regular file", _MOVE)
    with path.open("rb") as file:
        head = file.read(_ID_AT + 4)
    if not head:
        return
    if not head.startswith(_MAGIC) or len(head) < _ID_AT + 4:
        raise LogUnusable(f"{display(path)} is no database: damaged, or something else", _MOVE)
    if int.from_bytes(head[_ID_AT:], "big") != APPLICATION_ID:
        raise LogUnusable(f"{display(path)} is a database of another program", _MOVE)


def _connect(path: Path, mode: str, timeout: float) -> "Connection":
    import sqlite3

    connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=timeout, isolation_level=None)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return connection


def _reading_mode(path: Path) -> str:
    """`mode=rw`, so that the last reader tidies up; where nothing can be written, as one that nobody changes."""
    if os.access(path.parent, os.W_OK) or path.with_name(f"{path.name}-wal").exists():
        return "mode=rw"
    return "mode=ro&immutable=1"


def _use_wal(connection: "Connection", timeout: float) -> None:
    """Write-ahead logging, so that readers and writers do not wait for each other.

    Not every file system can; the default journal is as safe there.
    """
    import sqlite3

    connection.execute("PRAGMA synchronous = NORMAL")
    if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        return
    connection.execute("PRAGMA busy_timeout = 0")
    with contextlib.suppress(sqlite3.OperationalError):  # others are at work; the next one to come makes the change
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA busy_timeout = {round(timeout * 1000)}")


def _unusable(path: Path, error: "Error") -> LogUnusable:
    name = getattr(error, "sqlite_errorname", "").removeprefix("SQLITE_").split("_")[0]
    what, hint = _REASONS.get(name, (f"cannot be used: {error}", _MOVE))
    return LogUnusable(f"{display(path)} {what}", hint)
