"""The program under a real pseudo-terminal."""

import os
import re
import sys

import pytest
from talk import wait_for_forwards

pexpect = pytest.importorskip("pexpect")

SLOW = 250  # tokens: longer than a test waits, shorter than the tiny context


def spawn(*arguments, home, columns=80, **environment):
    return pexpect.spawn(
        sys.executable,
        ["-m", "llmcli", *map(str, arguments)],
        env={**os.environ, "LLMCLI_HOME": str(home), "TERM": "xterm-256color", **environment},
        dimensions=(24, columns),
        timeout=60,
        encoding="utf-8",
        codec_errors="replace",
    )


def finish(child):
    output = child.read()
    child.close()
    return output


def test_an_answer_on_a_terminal(tiny, home):
    child = spawn("chat", tiny, "-p", "hi", "--max-new-tokens", 5, home=home)
    output = finish(child)
    assert child.exitstatus == 0
    assert "decode 4 tok" in output


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_means_none(tiny, home, environment):
    child = spawn("chat", tiny, "-p", "hi", "--max-new-tokens", 5, home=home, **environment)
    output = finish(child)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", output)
    if "TERM" in environment:
        assert "\x1b" not in output


def test_forty_columns_lose_nothing(tiny, home):
    child = spawn("chat", tiny, "-p", "hi", "--max-new-tokens", 5, home=home, columns=40, TERM="dumb")
    assert "decode 4 tok" in " ".join(finish(child).split())


def test_control_characters_of_the_model_do_not_reach_the_terminal(monkeypatch, capsys):
    from llmcli.chat.screen import StdoutScreen

    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    screen = StdoutScreen()
    screen.write("a\x1b]52;c;eA==\x07b\x1b[2Jc\td\r\n\x9be")
    assert capsys.readouterr().out == "a]52;c;eA==b[2Jc\td\ne"


def test_into_a_pipe_the_text_goes_unchanged(capsys):
    from llmcli.chat.screen import StdoutScreen

    StdoutScreen().write("a\x1b[2Jb")
    assert capsys.readouterr().out == "a\x1b[2Jb"


def test_ctrl_c_ends_the_answer_and_keeps_text_and_figures(tiny, home, slow_engine):
    child = spawn("chat", tiny, "-p", "hi", "--max-new-tokens", SLOW, home=home, TERM="dumb", **slow_engine)
    child.expect("loaded in")
    wait_for_forwards(slow_engine["FORWARDS"], 5)
    child.sendintr()
    output = finish(child)
    assert child.exitstatus == 130
    assert "interrupted" in output
    assert re.search(r"decode \d+ tok", output)
    assert "Traceback" not in output
    assert "error" not in output


def test_ctrl_c_while_loading_leaves_at_once(tiny, home, slow_import):
    child = spawn("chat", tiny, "-p", "hi", home=home, TERM="dumb", **slow_import)
    child.expect("importing")
    child.sendintr()
    output = finish(child)
    assert child.exitstatus == 130
    assert "Traceback" not in output
    assert "interrupted" in output


def test_ctrl_c_in_a_bench_keeps_what_was_measured(tiny, home, slow_engine):
    child = spawn(
        "bench", tiny, "--prompt-len", 4, "--out-len", 8, "--repeats", 50, "--warmup", 0, home=home, TERM="dumb",
        **slow_engine,
    )  # fmt: skip
    child.expect("bench pp4")
    wait_for_forwards(slow_engine["FORWARDS"], 20)
    child.sendintr()
    output = finish(child)
    assert child.exitstatus == 130
    assert re.search(r"ended after \d+ of 50 repetitions", output)
    assert "pp4+tg8 @ d0 b1 " in output
    assert "Traceback" not in output


def test_a_bench_in_forty_columns_is_one_figure_a_line(tiny, home):
    child = spawn("bench", tiny, "--prompt-len", 4, "--out-len", 3, "--repeats", 2, home=home, columns=40, TERM="dumb")
    output = finish(child)
    assert re.search(r"^prefill tok/s +\d", output, re.MULTILINE)
    assert re.search(r"^dominant +(decode|prefill|other)", output, re.MULTILINE)
