"""A conversation on a real pseudo-terminal."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time

import psutil
import pytest
from talk import LINE, PROMPT, Talk

pexpect = pytest.importorskip("pexpect")


def leave(talk):
    talk.child.send("\x04")
    output = talk.end()
    assert (talk.child.exitstatus, talk.child.signalstatus) == (0, None), output
    return output


@pytest.fixture
def talk(tiny, home):
    """A conversation with the tiny model, waiting at its first prompt."""
    opened = Talk(tiny, "--max-new-tokens", 6, home=home)
    opened.until(PROMPT)
    yield opened
    opened.child.close(force=True)


@pytest.fixture
def slow_talk(tiny, home, slow_engine):
    """A conversation in which every token takes a while, and no answer ends by itself."""
    opened = Talk(tiny, "--max-new-tokens", 120, home=home, **slow_engine)
    opened.until("loaded in")
    yield opened
    opened.child.close(force=True)


def test_two_turns_and_ctrl_d(talk):
    talk.ask("hi")
    talk.until(r"decode \d+ tok")
    talk.ask("and now?")
    second = talk.until(LINE.pattern)
    prompt, cached, _ = LINE.search(second).groups()
    assert int(prompt) > 20, "the second prompt holds the first turn"
    assert int(cached) >= 10, "the first question comes from the cache"
    output = leave(talk)
    assert "Traceback" not in output


def test_exit_leaves_with_zero(talk):
    talk.ask("/exit")
    talk.end()
    assert talk.child.exitstatus == 0


def test_what_is_typed_while_the_model_loads_is_answered(tiny, home):
    talk = Talk(tiny, "--max-new-tokens", 4, home=home)
    talk.until(PROMPT)
    talk.ask("hi")
    talk.until(r"loaded in.*decode 3 tok")
    talk.ask("/stats")
    assert re.search(r"load_wait +\d", talk.until("session: 1 answer"))
    leave(talk)


def test_ctrl_c_ends_the_answer_and_not_the_conversation(slow_talk):
    slow_talk.ask("hi")
    slow_talk.forwards(4)
    slow_talk.child.sendintr()
    slow_talk.until(r"decode \d+ tok.*interrupted")
    slow_talk.ask("/show")
    slow_talk.until(r"conversation +1 turn,")
    slow_talk.ask("again")
    slow_talk.forwards(4)
    slow_talk.child.sendintr()
    slow_talk.until("interrupted")
    leave(slow_talk)


def test_ctrl_c_in_prefill_leaves_the_conversation_as_it_was(tiny, home, slow_prefill):
    talk = Talk(tiny, home=home, **slow_prefill)
    talk.until("loaded in")
    talk.ask("hi")
    talk.forwards(1)
    talk.child.sendintr()
    talk.until(r"prompt \d+ · prefill .*interrupted")
    talk.until("not part of the conversation")
    talk.ask("/show")
    talk.until(r"conversation +0 turns")
    leave(talk)


def test_a_key_pressed_twice_does_not_end_the_conversation(slow_talk):
    slow_talk.ask("hi")
    slow_talk.forwards(4)
    slow_talk.child.sendintr()
    slow_talk.child.sendintr()
    slow_talk.until("interrupted")
    slow_talk.ask("/show")
    slow_talk.until("conversation +1 turn,")
    leave(slow_talk)


def test_ctrl_c_at_the_prompt_clears_the_line_and_twice_leaves(talk):
    talk.child.send("not to be sent")
    talk.until("not to be sent")
    talk.child.send("\x03")
    talk.child.send("\x03")
    talk.until("Ctrl-C again or Ctrl-D leaves")
    talk.ask("/stats")
    talk.until(r"no answer yet.*\n>")
    talk.child.send("\x03")
    talk.until("leaves")
    talk.child.send("\x03")
    talk.end()
    assert talk.child.exitstatus == 130


def test_ctrl_d_with_text_on_the_line_does_not_leave(talk):
    talk.child.send("/sta")
    talk.child.send("\x04")
    talk.ask("ts")
    talk.until("no answer yet")
    leave(talk)


def test_a_paste_of_100000_characters_is_taken_and_refused_by_the_context(talk):
    talk.until("loaded in")
    for part in ["\x1b[200~", *["x" * 1000] * 100, "\x1b[201~"]:
        talk.child.send(part)
    talk.until(r"\[paste 1: 100,000 characters\]")
    talk.child.send("\r")
    assert "256 tokens" in talk.until(r"the prompt has 1000\d\d tokens.*context")
    talk.ask("hi")
    talk.until(LINE.pattern)
    leave(talk)


def test_messages_of_several_lines_and_paths_are_one_message_each(talk):
    for typed in (
        "\x1b[200~one\r\ntwo\nthree\x1b[201~\r",
        "one\x1b\rtwo\r",
        '"""one\rtwo"""\r',
        "/tmp/a.txt is missing\r",
    ):
        talk.child.send(typed)
        talk.until(LINE.pattern)
        talk.ask("/show")
        talk.until("conversation +1 turn,")
        talk.ask("/clear")
        talk.until("forgotten: 1 turn")
    leave(talk)


def test_commands_answer_in_words(talk):
    for typed, said in [
        ("/exti", "Did you mean /exit"),
        ("/HELP", "forget the conversation"),
        ("/set temprature 1", "the nearest is temperature"),
        ("/set temperature 9x", "is no number"),
        ("/set top_p 7", "is not allowed"),
        ("/set temperature", "needs a value"),
        ("/system", "there is no system text"),
        ("/clear", "forgotten: 0 turns"),
        ("/stats loud", "off, line, full"),
    ]:
        talk.ask(typed)
        talk.until(re.escape(said))
    leave(talk)


def test_settings_and_system_text_reach_the_request(talk, home):
    talk.ask("/set temperature 0.5")
    talk.ask("/set max-new-tokens 3")
    talk.ask("/system be brief")
    talk.until("system text set")
    talk.ask("hi")
    talk.until(r"decode 2 tok")
    talk.ask("/show")
    shown = talk.until(r"max_new_tokens +3 \(/set\)")
    assert re.search(r"temperature +0\.5 \(/set\)", shown)
    assert re.search(r"system +be brief", shown)
    leave(talk)


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_and_dumb_terminals(tiny, home, environment):
    talk = Talk(tiny, "--max-new-tokens", 4, home=home, **environment)
    talk.child.expect("> ?")
    talk.ask("hi")
    talk.child.expect("decode 3 tok")
    talk.child.send("\x04")
    output = talk.child.read()
    everything = (talk.child.before or "") + output
    talk.child.close()
    assert talk.child.exitstatus == 0
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", everything)
    if "TERM" in environment:
        assert "\x1b" not in everything


def test_forty_columns(tiny, home):
    talk = Talk(tiny, "--max-new-tokens", 4, home=home, columns=40)
    talk.until(PROMPT)
    talk.ask("안녕하세요, 이것은 마흔 칸보다 긴 문장입니다. 잘 보이나요?")
    assert "decode 3 tok" in " ".join(talk.until(r"·\s+length").split())
    leave(talk)


def test_a_resize_while_an_answer_runs(slow_talk):
    slow_talk.ask("hi")
    slow_talk.forwards(4)
    slow_talk.child.setwinsize(10, 30)
    slow_talk.forwards(4)
    slow_talk.child.sendintr()
    slow_talk.until("interrupted")
    slow_talk.child.setwinsize(24, 80)
    slow_talk.ask("/show")
    slow_talk.until("conversation +1 turn,")
    leave(slow_talk)


def test_what_is_typed_during_an_answer_is_kept_for_the_prompt_and_not_shown_in_it(slow_talk):
    slow_talk.ask("hi")
    slow_talk.forwards(4)
    slow_talk.child.send("/stats")
    slow_talk.forwards(4)
    slow_talk.child.sendintr()
    answered = slow_talk.until("interrupted")
    assert "/stats" not in answered
    slow_talk.until("/stats")
    slow_talk.child.send("\r")
    slow_talk.until("session: 1 answer")
    leave(slow_talk)


def test_what_is_pasted_during_an_answer_is_one_message_for_the_prompt(slow_talk):
    slow_talk.ask("hi")
    slow_talk.forwards(4)
    slow_talk.child.send("\x1b[200~one\ntwo\x1b[201~\r")
    slow_talk.forwards(4)
    slow_talk.child.sendintr()
    slow_talk.until("interrupted.*one.*two")
    slow_talk.forwards(4)
    slow_talk.child.sendintr()
    slow_talk.until("interrupted")
    slow_talk.ask("/show")
    slow_talk.until("conversation +2 turns,")
    leave(slow_talk)


@pytest.mark.parametrize("moment", ["prompt", "answer"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_being_ended_keeps_the_figures(tiny, home, slow_engine, moment, number):
    talk = Talk(tiny, "--max-new-tokens", 120, home=home, **slow_engine)
    talk.until("loaded in")
    if moment == "answer":
        talk.ask("hi")
        talk.forwards(4)
    os.kill(talk.child.pid, number)
    output = talk.end()
    assert talk.child.exitstatus == 143, output
    assert "Traceback" not in output
    if moment == "answer":
        assert re.search(r"decode \d+ tok.*interrupted", output, re.DOTALL)


@pytest.mark.parametrize("moment", ["prompt", "answer", "ctrl-c"])
def test_the_terminal_is_left_as_it_was(tiny, home, stuck_prefill, moment):
    """A shell's view of its settings before and after a conversation that a signal ends."""
    script = "stty -g > before; $PROGRAM; stty -g > after; cmp before after && echo same settings"
    program = f"{sys.executable} -m llmcli chat {tiny}"
    talk = Talk(home=home, shell=script, PROGRAM=program, **stuck_prefill)
    talk.until("loaded in")
    shell = psutil.Process(talk.child.pid)
    (child,) = (process for process in shell.children() if "llmcli" in process.cmdline())
    if moment != "prompt":
        talk.ask("hi")
        talk.forwards(1)
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:  # a stuck step does not end by itself
        child.send_signal(signal.SIGINT if moment == "ctrl-c" else signal.SIGTERM)
        time.sleep(0.7)
    talk.until("same settings")
    talk.child.close(force=True)


def test_a_window_that_is_closed_leaves_a_row_for_the_answer_that_ran(tiny, home, slow_engine):
    """The shell in it passes SIGHUP on, and the system sends another when the shell has ended."""
    talk = Talk(home=home, shell=f"{sys.executable} -m llmcli chat {tiny}; true", **slow_engine)
    talk.until("loaded in")
    talk.ask("hi")
    talk.forwards(4)
    (child,) = (p for p in psutil.Process(talk.child.pid).children() if "llmcli" in p.cmdline())
    for _ in range(2):
        child.send_signal(signal.SIGHUP)
        time.sleep(0.01)
    talk.child.ptyproc.fileobj.close()
    psutil.wait_procs([child], timeout=30)
    with sqlite3.connect(home / "state" / "log.db") as log:
        assert log.execute("select finish_reason from requests").fetchall() == [("interrupted",)]
    os.waitpid(talk.child.pid, 0)


@pytest.mark.parametrize("moment", ["loading", "prompt", "answer"])
def test_a_closed_terminal_ends_the_program(tiny, home, slow_engine, moment):
    talk = Talk(tiny, "--max-new-tokens", 120, home=home, **slow_engine)
    talk.until(PROMPT if moment == "loading" else "loaded in")
    if moment == "answer":
        talk.ask("hi")
        talk.forwards(4)
    talk.child.ptyproc.fileobj.close()
    assert os.waitstatus_to_exitcode(os.waitpid(talk.child.pid, 0)[1]) == 143


def test_stdout_elsewhere_gets_the_answers_only(tiny, home):
    out = home / "answers.txt"
    child = pexpect.spawn(
        "/bin/sh",
        ["-c", f"{sys.executable} -m llmcli chat {tiny} --max-new-tokens 4 > {out}"],
        env={**os.environ, "LLMCLI_HOME": str(home), "TERM": "xterm-256color"},
        timeout=60,
        encoding="utf-8",
    )
    child.expect("> ")
    child.send("hi\n")
    child.expect("decode 3 tok")
    child.send("\x04")
    child.read()
    child.close()
    assert child.exitstatus == 0
    text = out.read_text(errors="replace")
    assert text
    assert "> " not in text
    assert "prompt" not in text
    assert "\x1b" not in text


def test_a_model_that_cannot_be_loaded_ends_the_conversation_with_the_reason(tiny, home, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in tiny.iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    (broken / "tokenizer.json").write_text("{")
    talk = Talk(broken, home=home)
    output = talk.end()
    assert talk.child.exitstatus == 3, output
    assert "tokenizer" in output
    assert "Traceback" not in output


def test_without_a_terminal_and_without_a_question_it_says_what_to_do(home):
    ran = subprocess.run(
        [sys.executable, "-m", "llmcli", "chat"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert "there is no question" in ran.stderr


def test_bytes_that_are_no_text_are_taken_and_the_history_survives_them(talk, tiny, home):
    talk.until("loaded in")
    os.write(talk.child.child_fd, b"caf\xe9 \xed\xa0\x80\r")
    talk.until(LINE.pattern)
    leave(talk)
    again = Talk(tiny, home=home)
    again.until(PROMPT)
    again.child.send("\x1b[A")
    again.until("caf")
    again.child.send("\x03")
    leave(again)


def test_a_damaged_or_missing_history_does_not_matter(tiny, home):
    history = home / "state" / "history"
    history.mkdir(parents=True)
    talk = Talk(tiny, "--max-new-tokens", 3, home=home)
    talk.until(PROMPT)
    talk.ask("hi")
    output = talk.until(LINE.pattern)
    assert "not kept for the next time" in output
    leave(talk)


def test_answers_are_on_record(talk, home):
    talk.ask("hi")
    talk.until(LINE.pattern)
    leave(talk)
    with sqlite3.connect(home / "state" / "log.db") as log:
        assert log.execute("select count(*) from requests").fetchone() == (1,)
