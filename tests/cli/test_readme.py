"""The README shows what the program prints, and the generated page is up to date."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from programs import run_llmcli

REPO = Path(__file__).resolve().parents[2]
README = (REPO / "README.md").read_text(encoding="utf-8")
TRANSCRIPTS = re.findall(r"```console\n\$ llmcli (.*)\n((?s:.*?))```", README)


def masked(text):
    """Text without figures, units, devices, verdicts and line breaks: what has to be the same on every run."""
    text = re.sub(r"\b(prefill|decode|other \([a-z_]+\)) \d+ %", "VERDICT", " ".join(text.split()))
    text = re.sub(r"· (cpu(, \d+ threads?)?|cuda:\d+ \([^)]*\)|mps) ·", "· DEVICE ·", text)
    return re.sub(r"(?<![a-z.\d+@])\d+(\.\d+)? ?(ms|s)?(?![a-z+\d])", "N", text)


def test_two_commands_set_everything_up():
    blocks = re.findall(r"```sh\n((?s:.*?))```", README)
    assert len(blocks) == 2
    assert all(block.count("\n") == 1 for block in blocks)
    assert "llmcli chat -p" in blocks[0]
    assert blocks[1].strip().endswith("/pytest")


def test_there_is_a_transcript_of_every_command():
    commands = [" ".join(command.split()[:2]) for command, _ in TRANSCRIPTS]
    assert commands == ["chat -p", "chat", "log stats", "bench --prompt-len", "estimate-kv qwen3-8b"]


def transcript(name):
    return next((command, shown) for command, shown in TRANSCRIPTS if command.startswith(name))


@pytest.mark.default_model
def test_the_chat_is_what_the_program_prints(default_home):
    """The lines around the answer; its words depend on how a CPU rounds in 16 bit."""
    command, shown = transcript("chat -p")
    ran = run_llmcli(default_home, *shlex.split(command), "--device", "cpu")
    assert ran.returncode == 0
    assert ran.stdout.strip()
    loaded, line = (line for line in ran.stderr.splitlines() if not line.startswith("notice"))
    assert masked(shown).startswith(masked(loaded))
    assert masked(shown).endswith(masked(line))


@pytest.mark.default_model
def test_the_conversation_is_what_the_program_prints(default_home):
    """The lines around the answers, and that every turn after the first comes from the cache."""
    from talk import LINE, Talk  # skips where there are no pseudo-terminals

    shown = next(shown for command, shown in TRANSCRIPTS if command == "chat")
    hello, loaded, *rest = shown.splitlines()
    questions = [line[2:] for line in rest if line.startswith("> ")]
    lines = [line for line in rest if line.startswith("prompt ")]
    assert len(questions) == len(lines) == 3
    talk = Talk("--device", "cpu", home=default_home, columns=250)
    assert talk.until("Ctrl-D leaves").strip() == hello
    assert masked(loaded) == masked(talk.until(r"smollm2.*loaded in [\d.]+ m?s").partition("\n")[2].lstrip(">\b \r"))
    for question, line in zip(questions, lines, strict=True):
        talk.ask(question)
        ours = LINE.search(talk.until(LINE.pattern + r"\r"))[0]
        assert masked(ours) == masked(line)
    talk.child.send("\x04")
    talk.end()


def words(line):
    """What a line of statistics begins with, up to its first figure; which phase dominates is no matter."""
    return re.sub("^(prefill|decode|other.*?) takes", "takes", re.split(r"  |\d", line.strip())[0].strip())


@pytest.mark.default_model
def test_the_statistics_are_what_the_program_prints(default_home, home):
    """Headings and verdict; the figures are those of other requests."""
    (home / "cache").symlink_to(default_home / "cache")
    run_llmcli(home, "chat", "-p", "hi", "--max-new-tokens", 3, "--device", "cpu")
    run_llmcli(home, "bench", "--prompt-len", 512, "--out-len", 2, "--repeats", 1, "--warmup", 0, "--device", "cpu")
    ran = run_llmcli(home, "log", "stats")
    assert ran.returncode == 0
    shown = next(shown for command, shown in TRANSCRIPTS if command == "log stats")
    ours, theirs = ({words(line) for line in text.splitlines()} for text in (ran.stdout, shown))
    assert ours == theirs


@pytest.mark.default_model
def test_the_bench_is_what_the_program_prints(default_home):
    command, shown = transcript("bench")
    asked = ("bench", "--prompt-len", 8, "--out-len", 4, "--repeats", 2, "--device", "cpu")
    ran = run_llmcli(default_home, *asked)
    assert ran.returncode == 0
    ours, theirs = ran.stdout.splitlines(), shown.splitlines()
    assert ours[:2] == theirs[:2]
    assert [line.split() for line in ours[-3:-1]] == [line.split() for line in theirs[-3:-1]]
    named = (masked(line).replace("pp8+tg4", "NAME").replace("pp512+tg128", "NAME") for line in (ours[-1], theirs[-1]))
    assert len(set(named)) == 1
    assert "--prompt-len 512 --out-len 128" in command


def test_the_estimate_is_what_the_program_prints(home, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    command, shown = transcript("estimate-kv")
    ran = run_llmcli(home, *shlex.split(command))
    assert ran.returncode == 0
    ours, theirs = (re.sub(r"5\.24\.\d+", "5.24", text).split() for text in (ran.stdout, shown))
    assert ours == theirs


def test_the_generated_pages_are_up_to_date():
    checked = subprocess.run([sys.executable, REPO / "docs" / "generate.py", "--check"], check=False)
    assert checked.returncode == 0, "run: python docs/generate.py"
