"""The request log as a file: many writers, every way in which it can be unusable, and what survives."""

import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from traces import record, trace_of

from llmcli.errors import LogUnusable
from llmcli.metrics import log_schema, request_log
from llmcli.metrics.log_file import open_for_reading, open_for_writing
from llmcli.metrics.record import Failure
from llmcli.metrics.request_log import Selection, add, open_reader

TESTS = Path(__file__).parent.parent


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "log.db"


def made(**more):
    return replace(record(trace_of()), **more)


def rows(path, selection=None):
    with open_reader(path) as log:
        return list(log.all(selection or Selection())) if log else []


def shell(path, statement, *values):
    """What the sqlite3 shell would do."""
    connection = sqlite3.connect(path)
    try:
        with connection:
            return connection.execute(statement, values).fetchall()
    finally:
        connection.close()


def start(code, *arguments):
    """A process that writes records without torch."""
    head = f"import sys; sys.path.insert(0, {str(TESTS)!r})\n"
    head += (
        "from pathlib import Path\nfrom traces import record, trace_of\nfrom llmcli.metrics.request_log import add\n"
    )
    program = [sys.executable, "-c", head + code, *map(str, arguments)]
    return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_record_comes_back_as_it_was(path):
    kept = made(error=Failure("OutOfMemory", "out of memory while answering"))
    add(path, kept)
    (row,) = rows(path)
    assert row.record() == kept
    assert row.document()["schema"] == "llmcli.request/1"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_between_two_requests_the_log_is_one_whole_file(path, tmp_path):
    add(path, made())
    assert [file.name for file in path.parent.iterdir()] == ["log.db"]
    assert shell(path, "PRAGMA journal_mode") == [("wal",)]
    copy = tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes())
    assert len(rows(copy)) == 1


def test_the_columns_repeat_the_record(path):
    kept = record(trace_of(prompt=812, cached=790, evaluated=22, prefill=0.05, generated=165, per_token=0.01))
    add(path, kept)
    found = shell(
        path, "SELECT id, model, prompt, cached, evaluated, generated, prefill, decode, dominant FROM requests"
    )
    assert found == [(kept.id, "test", 812, 790, 22, 165, 0.05, kept.seconds.decode, "decode")]
    assert shell(path, "SELECT json_extract(record, '$.tokens.cached') FROM requests") == [(790,)]


def test_bytes_that_are_no_utf8_are_replaced(path):
    kept = made()
    broken = replace(kept, model=replace(kept.model, name="m\udcff"), sampling={**kept.sampling, "stop": ["\ud800"]})
    add(path, broken)
    read = rows(path)[0].record()
    assert (read.model.name, read.sampling["stop"]) == ("m\ufffd", ["\ufffd"])


def test_words_of_a_foreign_exception_are_not_kept(path):
    add(path, made(error=Failure("EngineFault", "answering failed: ValueError: cannot encode 'my secret prompt'")))
    assert rows(path)[0].record().error.message == "answering failed: ValueError"
    assert b"secret" not in path.read_bytes()


def test_eight_processes_at_once_lose_nothing(path):
    code = """
name = sys.argv[2]
for number in range(50):
    import dataclasses
    made = record(trace_of(prompt=number + 1))
    add(Path(sys.argv[1]), dataclasses.replace(made, command=name), timeout=60)
assert "torch" not in sys.modules
"""
    writers = [start(code, path, f"writer{number}") for number in range(8)]
    errors = [writer.communicate()[1] for writer in writers]
    assert errors == [""] * 8
    written = {(row.record().command, row.record().tokens.prompt) for row in rows(path)}
    assert written == {(f"writer{writer}", number + 1) for writer in range(8) for number in range(50)}
    assert len(rows(path)) == 400
    assert shell(path, "PRAGMA integrity_check") == [("ok",)]
    assert shell(path, "SELECT version FROM migrations") == [(1,), (2,)]


def test_a_writer_killed_at_any_moment_leaves_the_log_readable(path):
    code = """
while True:
    add(Path(sys.argv[1]), record(trace_of()))
    print("added", flush=True)
"""
    found = 0
    for _round in range(4):
        writer = start(code, path)
        for _ in range(3):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        said = 3 + writer.communicate()[0].count("added")
        before, found = found, len(rows(path))
        assert found - before in {said, said + 1}
        assert shell(path, "PRAGMA integrity_check") == [("ok",)]
    add(path, made())
    assert len(rows(path)) == found + 1


def test_a_writer_killed_inside_its_transaction_leaves_what_was_there(path):
    add(path, made())
    code = """
import os, signal
from llmcli.metrics.log_file import open_for_writing
with open_for_writing(Path(sys.argv[1])) as connection:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM requests")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    writer = start(code, path)
    writer.communicate()
    assert writer.returncode == -signal.SIGKILL
    assert len(rows(path)) == 1
    add(path, made())
    assert len(rows(path)) == 2


def directory(path):
    path.mkdir()


def random_bytes(path):
    path.write_bytes(os.urandom(5000))


def half_a_header(path):
    path.write_bytes(b"SQLite format 3\x00")


def foreign_database(path):
    shell(path, "CREATE TABLE requests (id, record)")


def foreign_wal_database(path):
    shell(path, "PRAGMA journal_mode = WAL")
    shell(path, "CREATE TABLE t (x)")


def named_pipe(path):
    os.mkfifo(path)


def cut_short(path):
    for _ in range(20):
        add(path, made())
    os.truncate(path, 8192)


def newer(path):
    add(path, made())
    shell(path, "PRAGMA user_version = 7")
    shell(path, "INSERT INTO migrations VALUES (7, '3.1.4', '2030-01-01')")


UNUSABLE = {
    directory: "is no regular file",
    random_bytes: "is no database",
    half_a_header: "is no database",
    foreign_database: "is a database of another program",
    foreign_wal_database: "is a database of another program",
    named_pipe: "is no regular file",
    cut_short: "is damaged",
    newer: "was written by a newer llmcli (3.1.4): its version is 7, and this llmcli knows 2",
}


@pytest.mark.parametrize("spoil", UNUSABLE, ids=lambda spoil: spoil.__name__)
def test_what_is_no_log_of_ours_is_named_and_left_as_it_is(path, spoil):
    path.parent.mkdir()
    spoil(path)
    before = path.read_bytes() if path.is_file() else None
    for use in (lambda: add(path, made()), lambda: rows(path)):
        with pytest.raises(LogUnusable) as caught:
            use()
        assert str(path) in caught.value.message
        assert UNUSABLE[spoil] in caught.value.message
        assert caught.value.hint
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LogUnusable, match=r"log\.db cannot be opened: Not a directory"):
        add(tmp_path / "file" / "state" / "log.db", made())


def test_a_missing_and_an_empty_log_have_no_reader_and_stay_so(path):
    assert rows(path) == []
    assert not path.exists()
    path.parent.mkdir()
    path.touch()
    assert rows(path) == []
    assert path.stat().st_size == 0
    add(path, made())
    assert len(rows(path)) == 1


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_log_that_another_process_holds_is_waited_for_and_then_given_up(path, journal):
    add(path, made())
    shell(path, f"PRAGMA journal_mode = {journal}")
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LogUnusable, match="locked by another process"):
        add(path, made(), timeout=0.05)
    release = threading.Timer(0.2, lambda: holder.execute("ROLLBACK"))
    release.start()
    add(path, made(), timeout=60)
    release.join()
    holder.close()
    assert len(rows(path)) == 2


def test_a_log_that_is_deleted_or_replaced_is_begun_anew(path):
    add(path, made())
    path.unlink()
    add(path, made())
    assert len(rows(path)) == 1
    path.rename(path.with_name("old.db"))
    add(path, made())
    assert len(rows(path)) == 1
    assert len(rows(path.with_name("old.db"))) == 1


def test_a_log_deleted_without_its_side_files_is_begun_anew(path):
    add(path, made())
    holder = sqlite3.connect(path)
    holder.execute("SELECT count(*) FROM requests").fetchall()
    add(path, made())  # stays in the write-ahead log, which the holder keeps open
    assert path.with_name("log.db-wal").stat().st_size > 0
    saved = path.with_name("log.db-wal").read_bytes()
    holder.close()
    path.unlink()
    path.with_name("log.db-wal").write_bytes(saved)
    add(path, made())
    assert len(rows(path)) == 1
    assert shell(path, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.skipif(sys.platform == "win32", reason="needs file size limits")
def test_a_disk_that_is_full_loses_the_record_and_nothing_else(path):
    add(path, made())
    code = """
import resource
from llmcli.errors import LogUnusable
size = Path(sys.argv[1]).stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))
try:
    add(Path(sys.argv[1]), record(trace_of()))
except LogUnusable as error:
    print(error.message)
"""
    said, errors = start(code, path).communicate()
    assert "log.db cannot be" in said
    assert errors == ""
    assert len(rows(path)) == 1
    add(path, made())
    assert len(rows(path)) == 2


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everything")
def test_a_read_only_log_is_read_and_not_written(path):
    add(path, made())
    path.chmod(0o400)
    with pytest.raises(LogUnusable, match="is read-only"):
        add(path, made())
    path.parent.chmod(0o500)
    assert len(rows(path)) == 1
    path.parent.chmod(0o700)


def test_a_log_on_a_medium_that_cannot_be_written_is_read(path, monkeypatch):
    add(path, made())
    monkeypatch.setattr("llmcli.metrics.log_file.os.access", lambda *_: False)
    assert len(rows(path)) == 1
    with open_for_reading(path) as connection, pytest.raises(sqlite3.OperationalError):
        connection.execute("DELETE FROM requests")


OLDER = log_schema.STEPS
NEWER = (*OLDER, ("ALTER TABLE requests ADD COLUMN note TEXT", "UPDATE requests SET note = 'kept'"))


def test_an_older_log_is_migrated_once_and_keeps_its_rows(path):
    add(path, made())
    for _ in range(2):
        with open_for_writing(path, steps=NEWER) as connection:
            assert connection.execute("SELECT note FROM requests").fetchall() == [("kept",)]
            assert connection.execute("PRAGMA user_version").fetchone() == (3,)
    assert shell(path, "SELECT version FROM migrations") == [(1,), (2,), (3,)]
    with pytest.raises(LogUnusable, match="newer llmcli"):
        add(path, made())


def test_a_log_from_before_batches_has_one_sequence_in_every_row(path):
    old = msgspec.to_builtins(made())
    del old["tokens"]["batch"]
    with open_for_writing(path, steps=OLDER[:1]) as connection:
        names = [name for _, name, *_ in connection.execute("PRAGMA table_info(requests)") if name != "seq"]
        values = [{"record": json.dumps(old)}.get(name, 0) for name in names]
        marks = ", ".join("?" * len(names))
        connection.execute(f"INSERT INTO requests ({', '.join(names)}) VALUES ({marks})", values)
    add(path, record(trace_of(batch=3)))
    assert shell(path, "SELECT batch FROM requests") == [(1,), (3,)]
    assert [row.record().tokens.batch for row in rows(path)] == [1, 3]


def test_reading_migrates_an_older_log(path):
    add(path, made())
    with open_for_reading(path, steps=NEWER) as connection:
        assert connection.execute("SELECT note FROM requests").fetchall() == [("kept",)]


def test_a_migration_that_fails_leaves_the_older_log(path):
    add(path, made())
    broken = (*OLDER, ("ALTER TABLE requests ADD COLUMN note TEXT", "UPDATE absent SET x = 1"))
    with pytest.raises(LogUnusable, match="no such table"), open_for_writing(path, steps=broken):
        pass
    assert len(rows(path)) == 1
    assert "note" not in shell(path, "SELECT sql FROM sqlite_master WHERE name = 'requests'")[0][0]


def test_processes_that_start_at_once_migrate_once(path):
    add(path, made())
    barrier = threading.Barrier(6)
    failed = []

    def use():
        barrier.wait()
        try:
            with open_for_writing(path, timeout=60, steps=NEWER) as connection:
                connection.execute("UPDATE requests SET note = 'used'")
        except LogUnusable as error:
            failed.append(error)

    threads = [threading.Thread(target=use) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert shell(path, "SELECT version FROM migrations") == [(1,), (2,), (3,)]


def test_rows_are_chosen_by_time_model_and_command(path):
    noon = datetime(2025, 1, 31, 12, 0, tzinfo=UTC)
    base = made()
    for hours, name, command in ((0, "a", "chat"), (1, "b", "chat"), (2, "a", "bench")):
        model = replace(base.model, name=name)
        at = request_log.utc_text(noon + timedelta(hours=hours))
        add(path, made(id=f"{hours:032x}", started_at=at, model=model, command=command))

    def chosen(**conditions):
        return [int(row.id, 16) for row in rows(path, Selection(**conditions))]

    assert chosen() == [0, 1, 2]
    assert chosen(since=noon + timedelta(hours=1)) == [1, 2]
    assert chosen(since=noon + timedelta(milliseconds=1)) == [1, 2]
    assert chosen(model="a") == [0, 2]
    assert chosen(model="a", command="chat") == [0]
    with open_reader(path) as log:
        assert [int(row.id, 16) for row in log.newest(Selection(), 2)] == [1, 2]
        assert [int(row.id, 16) for row in log.newest(Selection(command="chat"), 9)] == [0, 1]
        assert log.models() == ["a", "b"]


def test_reading_page_by_page_sees_every_row_once(path, monkeypatch):
    monkeypatch.setattr(request_log, "_PAGE", 3)
    ids = [f"{number:032x}" for number in range(10)]
    for id_ in ids:
        add(path, made(id=id_))
    shell(path, "DELETE FROM requests WHERE id IN (?, ?)", ids[2], ids[3])
    with open_reader(path) as log:
        reading = log.all(Selection())
        first = next(reading)
        add(path, made())  # a writer does not wait for a reader, and does not keep it busy for ever
        assert [first.id, *(row.id for row in reading)] == [id_ for id_ in ids if id_ not in ids[2:4]]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema": "llmcli.request/1"}', "\x00", b"\xff\xfe", 7])
def test_a_row_edited_by_hand_is_no_record_and_no_crash(path, text):
    add(path, made())
    add(path, made())
    shell(path, "UPDATE requests SET record = ? WHERE seq = 1", text)
    damaged, whole = rows(path)
    assert damaged.record() is None
    assert whole.record() is not None


def test_a_record_of_another_schema_is_not_taken_for_ours(path):
    add(path, made())
    other = json.dumps({**rows(path)[0].document(), "schema": "llmcli.request/2"})
    shell(path, "UPDATE requests SET record = ?", other)
    (row,) = rows(path)
    assert row.record() is None
    assert row.document()["schema"] == "llmcli.request/2"
