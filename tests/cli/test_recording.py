"""What chat and bench write into the log, and that a log that cannot be written never hurts them."""

import os
import signal
import sqlite3
import subprocess
import sys

import pytest
from traces import record, trace_of

from llmcli import paths
from llmcli.cli.recording import Recorder
from llmcli.errors import Terminated
from llmcli.metrics import request_log


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr("llmcli.cli.recording.TIMEOUT", 0.05)
    monkeypatch.setattr("llmcli.cli.recording._SHORT", 0.05)


def logged(llmcli):
    return llmcli("log", "list", "--format", "json").json()["requests"]


def test_a_question_becomes_a_row_without_its_text(llmcli, tiny, home):
    asked = llmcli("chat", tiny, "-p", "quite unmistakable", "-s", "be inimitable", "--max-new-tokens", 8, "--json")
    (row,) = logged(llmcli)
    answered = asked.json()
    text = answered.pop("text")
    assert row == answered
    for file in (home / "state").iterdir():
        content = file.read_bytes()
        assert b"unmistakable" not in content
        assert b"inimitable" not in content
        assert text.encode() not in content


def test_a_failed_answer_is_logged(llmcli, tiny, monkeypatch):
    def fail(*_):
        raise RuntimeError("broken while reading 'secret'")

    monkeypatch.setattr("llmcli.engine.decode.eager.forward", fail)
    assert llmcli("chat", tiny, "-p", "hi").code == 1
    (row,) = logged(llmcli)
    assert row["finish_reason"] == "error"
    assert row["error"] == {"type": "EngineFault", "message": "answering failed: RuntimeError"}


def test_an_answer_whose_reader_went_away_is_logged(tiny, home, llmcli):
    environment = {**os.environ, "LLMCLI_HOME": str(home)}
    command = f"{sys.executable} -m llmcli chat {tiny} -p hi --max-new-tokens 200 | head -c 1"
    subprocess.run(["sh", "-c", command], env=environment, check=True, capture_output=True)
    (row,) = logged(llmcli)
    assert row["command"] == "chat"


def test_an_interrupted_answer_is_logged(tiny, home, llmcli, slow_engine):
    environment = {**os.environ, "LLMCLI_HOME": str(home), **slow_engine}
    environment["PYTHONPATH"] = os.pathsep.join((slow_engine["PYTHONPATH"], os.environ.get("PYTHONPATH", "")))
    program = [sys.executable, "-m", "llmcli", "chat", str(tiny), "-p", "hi", "--max-new-tokens", "200"]
    child = subprocess.Popen(
        program, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    child.stdout.read(1)
    child.send_signal(signal.SIGINT)
    child.communicate()
    assert child.returncode == 130
    (row,) = logged(llmcli)
    assert row["finish_reason"] == "interrupted"
    assert row["tokens"]["generated"] >= 1


def test_a_prompt_that_is_refused_is_no_request(llmcli, tiny):
    assert llmcli("chat", tiny, "-p", "x" * 300).code == 2
    assert logged(llmcli) == []


def test_measured_repetitions_become_rows(llmcli, tiny):
    llmcli("bench", tiny, "--prompt-len", 8, "--out-len", 4, "--repeats", 3, "--warmup", 2)
    rows = logged(llmcli)
    assert [(row["command"], row["tokens"]["prompt"], row["tokens"]["generated"]) for row in rows] == [
        ("bench", 8, 4)
    ] * 3


@pytest.mark.parametrize("command", [("chat", "-p", "hi"), ("bench", "--prompt-len", 8, "--out-len", 4)])
def test_no_log_writes_nothing(llmcli, tiny, command):
    assert llmcli(*command, tiny, "--no-log").code == 0
    assert not paths.log_file().exists()


def unwritable(file):
    file.parent.mkdir(exist_ok=True)
    file.mkdir()


def random_bytes(file):
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(bytes(range(256)) * 20)


@pytest.mark.parametrize("spoil", [unwritable, random_bytes])
def test_chat_goes_on_without_a_log_and_says_so_once(llmcli, tiny, spoil):
    asked = ("chat", tiny, "-p", "hi", "--max-new-tokens", 8)
    whole = llmcli(*asked, "--no-log")
    spoil(paths.log_file())
    ran = llmcli(*asked)
    assert (ran.code, ran.out) == (0, whole.out)
    (notice,) = [line for line in ran.err.splitlines() if "the request log cannot be written" in line]
    assert str(paths.log_file()) in notice
    assert "1 request is not in the log" in ran.err
    assert "Traceback" not in ran.err


def test_a_bench_goes_on_without_a_log_and_counts_what_is_lost(llmcli, tiny):
    unwritable(paths.log_file())
    ran = llmcli("bench", tiny, "--prompt-len", 8, "--out-len", 4, "--repeats", 3)
    assert ran.code == 0
    assert "pp8+tg4" in ran.out
    assert ran.err.count("the request log cannot be written") == 1
    assert "3 requests are not in the log" in ran.err


def test_a_locked_log_loses_records_only_while_it_is_locked(capsys):
    recorder = Recorder()
    recorder.add(record(trace_of()))
    holder = sqlite3.connect(paths.log_file(), isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    recorder.add(record(trace_of()))
    recorder.add(record(trace_of()))
    holder.execute("ROLLBACK")
    holder.close()
    recorder.add(record(trace_of()))
    recorder.close()
    first, last = capsys.readouterr().err.splitlines()
    assert "log.db is locked by another process" in first
    assert last == "notice: 2 requests are not in the log"
    with request_log.open_reader(paths.log_file()) as log:
        assert len(list(log.all(request_log.Selection()))) == 2


def test_a_log_deleted_while_running_is_begun_anew(capsys):
    recorder = Recorder()
    recorder.add(record(trace_of()))
    for file in paths.state_dir().iterdir():
        file.unlink()
    paths.state_dir().rmdir()
    recorder.add(record(trace_of()))
    recorder.close()
    assert capsys.readouterr().err == ""
    with request_log.open_reader(paths.log_file()) as log:
        assert len(list(log.all(request_log.Selection()))) == 1


def test_a_fault_of_the_log_is_a_notice_and_the_end_of_the_program_stays_one(monkeypatch, capsys):
    def fault(*_arguments, **_more):
        raise raised

    monkeypatch.setattr(request_log, "add", fault)
    recorder = Recorder()
    raised = ValueError("unforeseen")
    recorder.add(record(trace_of()))
    assert "ValueError: unforeseen" in capsys.readouterr().err
    for raised in (Terminated(), KeyboardInterrupt()):
        with pytest.raises(type(raised)):
            recorder.add(record(trace_of()))


def test_a_notice_can_wait_until_the_screen_is_free(capsys):
    unwritable(paths.log_file())
    recorder = Recorder(at_once=False)
    recorder.add(record(trace_of()))
    assert capsys.readouterr().err == ""
    recorder.close()
    first, last = capsys.readouterr().err.splitlines()
    assert "the request log cannot be written" in first
    assert "1 request is not in the log" in last


def test_a_recorder_that_is_off_makes_no_file_and_says_nothing(capsys):
    recorder = Recorder(enabled=False)
    recorder.add(record(trace_of()))
    recorder.close()
    assert capsys.readouterr().err == ""
    assert not paths.log_file().exists()
