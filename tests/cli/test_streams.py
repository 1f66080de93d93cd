"""Closed, full and narrow streams: never a traceback, never a lost word."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

PROGRAM = f"{sys.executable} -m llmcli"


def shell(command, home, **environment):
    environment = {**os.environ, "LLMCLI_HOME": str(home), **environment}
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        check=False, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.parametrize("command", ["--version", "--help", "estimate-kv", "models list"])
def test_a_stdout_that_was_closed_before_the_start_is_fine(home, command):
    ran = shell(f"{PROGRAM} {command} >&-", home)
    assert ran.returncode == 0
    assert "Traceback" not in ran.stderr


def test_a_closed_stderr_is_fine(home):
    assert shell(f"{PROGRAM} estimate-kv /nope 2>&-", home).returncode == 3


@pytest.mark.parametrize("command", ["models list", "estimate-kv", "--help"])
def test_a_reader_that_goes_away_is_141(home, command):
    ran = shell(f"{PROGRAM} {command} | true; echo ${{PIPESTATUS[0]}}", home)
    assert ran.stdout.strip() in {"141", "0"}, "0 when everything had been written before"
    assert "Traceback" not in ran.stderr
    assert "error" not in ran.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
def test_a_full_disk_behind_stdout_is_named_and_figures_are_kept(tiny, home):
    ran = shell(f"{PROGRAM} chat {tiny} -p hi --max-new-tokens 3 >/dev/full", home)
    assert ran.returncode == 1
    assert "stdout cannot be written: No space left on device" in ran.stderr
    assert "prefill" in ran.stderr
    assert "fault of llmcli" not in ran.stderr


def test_in_an_ascii_locale_json_keeps_every_character(tiny, home):
    ran = shell(f"{PROGRAM} chat {tiny} -p hi --max-new-tokens 4 --json", home, PYTHONIOENCODING="ascii")
    assert ran.stdout.isascii()
    plain = shell(f"{PROGRAM} chat {tiny} -p hi --max-new-tokens 4 --json", home, PYTHONIOENCODING="utf-8")
    assert json.loads(ran.stdout)["text"] == json.loads(plain.stdout)["text"]


def test_in_an_ascii_locale_our_own_characters_have_stand_ins(tiny, home):
    bench = f"{PROGRAM} bench {tiny} --prompt-len 4 --out-len 3 --repeats 2 --explain"
    ran = shell(bench, home, PYTHONIOENCODING="ascii")
    assert ran.returncode == 0
    assert (ran.stdout + ran.stderr).isascii()
    assert "+-" in ran.stdout
    assert "evaluated / prefill" in ran.stderr
    assert "\\u" not in ran.stdout + ran.stderr


def test_sigterm_ends_a_bench_with_what_was_measured(tiny, home):
    environment = {**os.environ, "LLMCLI_HOME": str(home)}
    program = [sys.executable, "-m", "llmcli", "bench", str(tiny), "--prompt-len", "4", "--out-len", "3"]
    with subprocess.Popen(
        [*program, "--warmup", "0", "--repeats", "100000"], stderr=subprocess.PIPE, text=True, env=environment,
        stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
    ) as child:  # fmt: skip
        while "bench pp4" not in child.stderr.readline():
            pass
        time.sleep(1)
        child.send_signal(signal.SIGTERM)
        err = child.stderr.read()
    assert child.returncode == 143
    assert "of 100000 repetitions" in err
    assert err.splitlines()[-1] == "terminated"


def test_sigterm_ends_an_answer_with_its_figures(tiny, home, slow_engine):
    environment = {**os.environ, "LLMCLI_HOME": str(home), **slow_engine}
    program = [sys.executable, "-m", "llmcli", "chat", str(tiny), "-p", "hi", "--max-new-tokens", "200"]
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, stdin=subprocess.DEVNULL
    ) as child:
        assert child.stdout.read(1)
        child.send_signal(signal.SIGTERM)
        err = child.stderr.read().decode()
    assert child.returncode == 143
    assert "prefill" in err
    assert "interrupted" in err
    assert err.splitlines()[-1] == "terminated"


def test_sigterm_while_loading_says_so(tiny, home, slow_import):
    environment = {**os.environ, "LLMCLI_HOME": str(home), **slow_import}
    program = [sys.executable, "-m", "llmcli", "chat", str(tiny), "-p", "hi"]
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, stdin=subprocess.DEVNULL, text=True
    ) as child:
        assert child.stderr.readline() == "importing\n"
        child.send_signal(signal.SIGTERM)
        err = child.stderr.read()
    assert (child.returncode, err) == (143, "terminated\n")
