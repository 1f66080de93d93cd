"""`llmcli log` on a log whose rows are known."""

import csv
import io
import json
import os
import random
import re
import sqlite3
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from programs import run_llmcli
from traces import record, trace_of

from llmcli import paths
from llmcli.metrics.request_log import add, utc_text

IDS = ("aaaa1111" + "0" * 24, "aaaa2222" + "0" * 24, "bbbb3333" + "0" * 24)


def put(id_, *, name="test", command="chat", ago=timedelta(0), trace=None):
    made = record(trace or trace_of(prompt=812, cached=790, prefill=0.05, generated=165, per_token=0.0125))
    made = replace(made, id=id_, command=command, started_at=utc_text(datetime.now(UTC) - ago))
    made = replace(made, model=replace(made.model, name=name))
    add(paths.log_file(), made)
    return made


@pytest.fixture
def filled():
    """Three requests, the newest last."""
    return [
        put(IDS[0], ago=timedelta(days=3)),
        put(IDS[1], ago=timedelta(hours=1), name="한국어", command="bench"),
        put(IDS[2], trace=trace_of(prompt=4096, prefill=4.0, generated=11, per_token=0.1)),
    ]


def edit(statement, *values):
    connection = sqlite3.connect(paths.log_file())
    with connection:
        connection.execute(statement, values)
    connection.close()


def ids(ran):
    return [request["id"] for request in ran.json()["requests"]]


@pytest.mark.parametrize("arguments", [("list",), ("last",), ("stats",), ("export",)])
@pytest.mark.parametrize("there", [False, True])
def test_an_empty_log_is_said_and_not_created(llmcli, arguments, there):
    if there:
        paths.state_dir().mkdir()
        paths.log_file().touch()
    ran = llmcli("log", *arguments)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"no request has been logged yet ({paths.log_file()})\n"
    assert paths.log_file().exists() == there
    assert not there or paths.log_file().stat().st_size == 0


def test_empty_answers_for_programs_are_whole_documents(llmcli):
    assert llmcli("log", "list", "--format", "json").json() == {"schema": "llmcli.log/1", "requests": []}
    assert llmcli("log", "stats", "--format", "json").json()["requests"] == 0
    header = llmcli("log", "export", "--format", "csv").out
    assert len(header.splitlines()) == 1
    assert "seconds.prefill" in header.split(",")


def test_list_shows_a_row_per_request_the_newest_last(llmcli, filled):
    ran = llmcli("log", "list")
    lines = [line for line in ran.out.splitlines() if line[:8] in {id_[:8] for id_ in IDS}]
    assert [line.split()[0] for line in lines] == [id_[:8] for id_ in IDS]
    assert "812 (790)" in lines[0]
    assert "한국어" in lines[1]
    assert "bench" in lines[1]
    assert "4.00 1024" in lines[2]
    assert "prefill" in lines[2].split()[-1]
    local = datetime.fromisoformat(filled[2].started_at).astimezone()
    assert f"{local:%Y-%m-%d %H:%M:%S}" in lines[2]


def test_below_64_evaluated_tokens_no_prefill_rate_is_shown(llmcli, filled):
    first = next(line for line in llmcli("log", "list").out.splitlines() if line.startswith("aaaa1111"))
    assert "0.050    -" in first


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), (0, 1, 2)),
        (("-n", 1), (2,)),
        (("--limit", 2), (1, 2)),
        (("--since", "2h"), (1, 2)),
        (("--since", "30m"), (2,)),
        (("--model", "test"), (0, 2)),
        (("--model", "test", "-n", 1), (2,)),
        (("--command", "bench"), (1,)),
        (("--command", "chat", "--since", "7d"), (0, 2)),
    ],
)
def test_list_takes_filters(llmcli, filled, flags, expected):
    assert ids(llmcli("log", "list", "--format", "json", *flags)) == [IDS[number] for number in expected]


def test_filters_hold_for_stats_and_export(llmcli, filled):
    chosen = ("--model", "test", "--command", "chat", "--since", "2h")
    assert llmcli("log", "stats", "--format", "json", *chosen).json()["requests"] == 1
    (line,) = llmcli("log", "export", *chosen).out.splitlines()
    assert json.loads(line)["id"] == IDS[2]


def test_what_matches_nothing_is_said(llmcli, filled):
    ran = llmcli("log", "list", "--model", "tset")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "no request of tset is in the log; it has requests of test, 한국어\n"
    for command in ("list", "stats", "export"):
        ran = llmcli("log", command, "--model", "test", "--command", "bench")
        assert (ran.code, ran.out, ran.err) == (0, "", "no request in the log matches\n")


def test_show_takes_any_unique_prefix(llmcli, filled):
    for prefix in ("bbbb", "BBBB3333", IDS[2]):
        assert llmcli("log", "show", prefix, "--format", "json").json()["id"] == IDS[2]
    shown = llmcli("log", "show", "aaaa1").out
    assert IDS[0] in shown
    for words in ("test · bfloat16 · cpu", "ttft", "prompt 812 (790 cached)", "decode 98 %", "finish_reason"):
        assert words in shown
    assert f"{datetime.fromisoformat(filled[0].started_at).astimezone():%Y-%m-%d %H:%M:%S}" in shown


@pytest.mark.parametrize(
    ("prefix", "words"),
    [
        ("aaaa", "several requests have an id that begins with aaaa"),
        ("cccc", "no request in the log has an id that begins with cccc"),
        ("aaa", "'aaa' is no id"),
        ("a*?%", "is no id"),
        ("aaaa1111'; DROP", "is no id"),
        ("a" * 33, "is no id"),
    ],
)
def test_show_refuses_what_is_not_one_request(llmcli, filled, prefix, words):
    ran = llmcli("log", "show", prefix)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_an_ambiguous_prefix_names_what_it_could_be(llmcli, filled):
    assert "aaaa1111, aaaa2222" in llmcli("log", "show", "aaaa").err


def test_last_is_the_newest_of_all_or_of_a_command(llmcli, filled):
    assert llmcli("log", "last", "--format", "json").json()["id"] == IDS[2]
    assert llmcli("log", "last", "--format", "json", "--command", "bench").json()["id"] == IDS[1]
    assert IDS[2] in llmcli("log", "last").out


def test_json_is_the_record_exactly_as_stored(llmcli, filled):
    stored = {**llmcli("log", "last", "--format", "json").json(), "extra": {"from": "elsewhere"}}
    edit("UPDATE requests SET record = ? WHERE id = ?", json.dumps(stored), IDS[2])
    assert llmcli("log", "last", "--format", "json").json() == stored


def test_stats_say_which_phase_takes_the_time(llmcli, filled):
    ran = llmcli("log", "stats", "--model", "test")
    assert "prefill takes 57 % of your waiting: 2 requests, 7.1 s" in ran.out
    rows = {line.split()[0]: line.split() for line in ran.out.splitlines() if line}
    assert rows["prefill"][1:5] == ["4.05", "57", "%", "4118"]
    assert rows["decode"][1:5] == ["3.05", "43", "%", "174"]
    assert rows["1–63"][:6] == ["1–63", "1", "0.050", "440", "2.05", "80"]
    assert rows["4096+"][:6] == ["4096+", "1", "4.00", "1024", "1.00", "10"]
    assert rows["all"][:6] == ["all", "2", "4.05", "1017", "3.05", "57"]
    assert "16 % of them from the cache" in ran.out


def test_stats_say_that_interrupted_and_failed_requests_count(llmcli, filled):
    put("c" * 32, trace=trace_of(finish_reason="interrupted"))
    put("d" * 32, trace=trace_of(finish_reason="error"))
    assert "1 interrupted, 1 failed: counted with what they did" in llmcli("log", "stats").out


def test_stats_as_json_are_a_contract(llmcli, filled):
    stats = llmcli("log", "stats", "--format", "json").json()
    assert set(stats) == {"schema", "requests", "first", "last", "commands", "finish_reasons", "models"}
    assert (stats["schema"], stats["requests"]) == ("llmcli.log-stats/1", 3)
    totals = {"requests", "tokens", "seconds", "phases", "prefill", "decode", "cached_share", "ttft"}
    for model in stats["models"]:
        assert set(model) == {"name", "quant", "dtype", "device", "totals", "buckets", "finish_reasons"}
        assert set(model["totals"]) == totals
        for bucket in model["buckets"]:
            assert set(bucket) == {"least", "most", "totals"}
            assert set(bucket["totals"]) == totals
            assert set(bucket["totals"]["prefill"]) == {"requests", "tokens", "seconds", "tps"}


def test_export_as_jsonl_is_the_records(llmcli, filled):
    lines = llmcli("log", "export").out.splitlines()
    assert [json.loads(line) for line in lines] == llmcli("log", "list", "--format", "json").json()["requests"]


def test_export_as_csv_has_dotted_columns(llmcli, filled):
    rows = list(csv.DictReader(io.StringIO(llmcli("log", "export", "--format", "csv").out)))
    assert [row["id"] for row in rows] == list(IDS)
    assert float(rows[2]["seconds.prefill"]) == 4.0
    assert (rows[1]["model.name"], rows[1]["tokens.cached"], rows[1]["ceiling.mbu"]) == ("한국어", "790", "")


def test_a_json_line_stays_one_line_and_ascii_where_stdout_is(filled, home):
    text = json.dumps(json.loads(run_llmcli(home, "log", "show", "aaaa2", "--format", "json").stdout), indent=1)
    edit("UPDATE requests SET record = ? WHERE id = ?", text, IDS[1])
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ran = subprocess.run(
        [sys.executable, "-m", "llmcli", "log", "export"], check=True, env=environment, capture_output=True
    )
    lines = ran.stdout.decode("ascii").splitlines()
    assert [json.loads(line)["model"]["name"] for line in lines] == ["test", "한국어", "test"]


def test_a_damaged_row_is_named_and_left_out(llmcli, filled):
    edit("UPDATE requests SET record = '{' WHERE id = ?", IDS[0])
    notice = "notice: 1 row of the log cannot be read and is left out: " + IDS[0]
    for command in (("list",), ("list", "--format", "json"), ("stats",), ("export",), ("export", "--format", "csv")):
        ran = llmcli("log", *command)
        assert ran.code == 0
        assert notice in ran.err.splitlines()
        assert IDS[0][:8] not in ran.out
    assert ids(llmcli("log", "list", "--format", "json")) == list(IDS[1:])
    ran = llmcli("log", "show", IDS[0])
    assert (ran.code, ran.out) == (1, "")
    assert "is damaged" in ran.err


def test_control_characters_in_a_row_stay_off_the_terminal(llmcli, filled):
    put("e" * 32, name="evil\x1b]0;pwn\x07\x9b2J")
    for command in ("list", "last", "stats"):
        ran = llmcli("log", command)
        assert not {"\x1b", "\x07", "\x9b"} & set(ran.out + ran.err)
    assert "evil]0;pwn2J" in llmcli("log", "last").out


def test_a_stamp_that_is_no_time_is_shown_as_it_is(llmcli, filled):
    edit("UPDATE requests SET record = json_set(record, '$.started_at', 'yesterday') WHERE id = ?", IDS[0])
    assert "yesterday" in llmcli("log", "list").out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("list", "-n", 0), "--limit 0 is not allowed"),
        (("list", "--since", "soon"), "--since 'soon' is no time"),
        (("list", "--command", "models"), "models"),
        (("stats", "--since", "2025-02-30"), "is no time"),
        (("export", "--format", "xml"), "xml"),
        (("show",), "ID"),
    ],
)
def test_wrong_usage_is_refused_in_words(llmcli, arguments, words):
    ran = llmcli("log", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert ran.err.startswith("error: ")


@pytest.mark.parametrize("arguments", [("list",), ("last",), ("show", "aaaa1"), ("stats",), ("export",)])
def test_a_log_of_a_newer_llmcli_ends_in_one_error(llmcli, filled, arguments):
    edit("PRAGMA user_version = 9")
    edit("INSERT INTO migrations VALUES (9, '2.5.0', '2030-01-01T00:00:00+00:00')")
    ran = llmcli("log", *arguments)
    assert (ran.code, ran.out) == (1, "")
    error, hint = ran.err.splitlines()
    assert "written by a newer llmcli (2.5.0): its version is 9, and this llmcli knows 2" in error
    assert "Update llmcli; or move the file away" in hint


@pytest.mark.parametrize("arguments", [("list",), ("stats",), ("export",)])
def test_a_file_that_is_no_log_ends_in_one_error(llmcli, arguments):
    paths.state_dir().mkdir()
    paths.log_file().write_bytes(random.Random(0).randbytes(4096))
    ran = llmcli("log", *arguments)
    assert (ran.code, ran.out) == (1, "")
    assert "log.db is no database" in ran.err
    assert "Move it away" in ran.err


def test_a_long_export_into_a_pipe_that_closes_ends_quietly(home):
    for number in range(30):
        put(f"{number:032x}")
    edit("INSERT INTO requests SELECT seq + 1000 * n.value, id || n.value, started_at, command, model, quant, dtype, "
         "device, prompt, cached, evaluated, generated, ttft, prefill, decode, total, dominant, finish_reason, record, "
         "batch FROM requests, (WITH RECURSIVE n(value) AS "
         "(SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 20) SELECT value FROM n) AS n")  # fmt: skip
    for form in ("jsonl", "csv"):
        program = f"{sys.executable} -m llmcli log export --format {form}; echo $? >&2"
        ran = subprocess.run(["sh", "-c", f"({program}) | head -n 1"], check=True, capture_output=True, text=True)
        assert ran.stderr == "141\n"
        assert len(ran.stdout.splitlines()) == 1


@pytest.mark.parametrize("columns", [40, 60, 80, 110])
def test_tables_fit_the_terminal_and_cut_no_digits(filled, home, columns):
    pexpect = pytest.importorskip("pexpect")
    from rich.cells import cell_len

    put("f" * 32, name="organisation/a-rather-long-model-name-instruct")
    for command in ("list", "stats", "last"):
        environment = {**os.environ, "LLMCLI_HOME": str(home), "TERM": "xterm", "NO_COLOR": "1"}
        program = ["-m", "llmcli", "log", command]
        child = pexpect.spawn(
            sys.executable, program, env=environment, dimensions=(50, columns), encoding="utf-8", timeout=60
        )
        lines = re.sub(r"\x1b\[[0-9;]*m", "", child.read()).splitlines()
        child.close()
        assert child.exitstatus == 0
        assert max(map(cell_len, lines)) <= columns
        if command == "list":
            assert lines[1].split()[-1] == "dominant"
            assert {line.split()[0] for line in lines[2:]} == {*(id_[:8] for id_ in IDS), "ffffffff"}
            assert not re.search(r"[0-9]…", "".join(lines))
