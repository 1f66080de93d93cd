"""The schema of the request log, and how a log gets from one version to the next.

`PRAGMA application_id` tells a log of llmcli from every other database, `PRAGMA user_version` is its schema version.
The table `migrations` says which llmcli brought the log to which version.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from llmcli import __version__
from llmcli.errors import LogUnusable
from llmcli.paths import display

if TYPE_CHECKING:
    from sqlite3 import Connection

APPLICATION_ID = 0x6C6C6D63
"""The letters `llmc`."""

Step = tuple[str, ...]
"""The statements that lead from one schema version to the next."""

STEPS: tuple[Step, ...] = (
    (
        "CREATE TABLE migrations (version INTEGER PRIMARY KEY, llmcli TEXT NOT NULL, applied_at TEXT NOT NULL)",
        """CREATE TABLE requests (
            seq INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            started_at TEXT NOT NULL,
            command TEXT NOT NULL,
            model TEXT NOT NULL,
            quant TEXT NOT NULL,
            dtype TEXT NOT NULL,
            device TEXT NOT NULL,
            prompt INTEGER NOT NULL,
            cached INTEGER NOT NULL,
            evaluated INTEGER NOT NULL,
            generated INTEGER NOT NULL,
            ttft REAL,
            prefill REAL,
            decode REAL,
            total REAL,
            dominant TEXT NOT NULL,
            finish_reason TEXT NOT NULL,
            record TEXT NOT NULL
        )""",
        "CREATE INDEX requests_started_at ON requests (started_at)",
    ),
    ("ALTER TABLE requests ADD COLUMN batch INTEGER NOT NULL DEFAULT 1",),
)


def migrate(connection: "Connection", path: Path, steps: tuple[Step, ...] = STEPS) -> None:
    """Bring the log to the newest version of `steps`, in one transaction that only one process has at a time.

    Raises LogUnusable for a log of a newer version, which is left as it is.
    """
    if _version(connection, path, len(steps)) == len(steps):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        _apply(
            connection, steps, _version(connection, path, len(steps))
        )  # read again: another process may have done it
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _apply(connection: "Connection", steps: tuple[Step, ...], done: int) -> None:
    for version, step in enumerate(steps[done:], done + 1):
        for statement in step:
            connection.execute(statement)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        connection.execute("INSERT INTO migrations VALUES (?, ?, ?)", (version, __version__, now))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {len(steps)}")


def _version(connection: "Connection", path: Path, known: int) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > known:
        raise LogUnusable(
            f"{display(path)} was written by a newer llmcli{_writer(connection)}: "
            f"its version is {version}, and this llmcli knows {known}",
            "Update llmcli; or move the file away, and a new log is begun.",
        )
    return version


def _writer(connection: "Connection") -> str:
    """` 0.2.0`, or nothing when the newer log does not say it where this version would."""
    import sqlite3

    try:
        row = connection.execute("SELECT llmcli FROM migrations ORDER BY version DESC LIMIT 1").fetchone()
    except sqlite3.Error:
        return ""
    return f" ({row[0]})" if row else ""
