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
    text = re.sub(r"· (cpu|cuda:\d+ \([^)]*\)|mps) ·", "· DEVICE ·", text)
    return re.sub(r"(?<![a-z.\d+@])\d+(\.\d+)? ?(ms|s)?(?![a-z+\d])", "N", text)


def test_two_commands_set_everything_up():
    blocks = re.findall(r"```sh\n((?s:.*?))```", README)
    assert len(blocks) == 2
    assert all(block.count("\n") == 1 for block in blocks)
    assert "llmcli chat -p" in blocks[0]
    assert blocks[1].strip().endswith("/pytest")


def test_there_is_a_transcript_of_every_command():
    assert [command.split()[0] for command, _ in TRANSCRIPTS] == ["chat", "bench", "estimate-kv"]


def transcript(name):
    return next((command, shown) for command, shown in TRANSCRIPTS if command.startswith(name))


@pytest.mark.default_model
def test_the_chat_is_what_the_program_prints(default_home):
    """The lines around the answer; its words depend on how a CPU rounds in 16 bit."""
    command, shown = transcript("chat")
    ran = run_llmcli(default_home, *shlex.split(command), "--device", "cpu")
    assert ran.returncode == 0
    assert ran.stdout.strip()
    loaded, line = (line for line in ran.stderr.splitlines() if not line.startswith("notice"))
    assert masked(shown).startswith(masked(loaded))
    assert masked(shown).endswith(masked(line))


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


@pytest.mark.default_model
def test_the_estimate_is_what_the_program_prints(default_home):
    command, shown = transcript("estimate-kv")
    ran = run_llmcli(default_home, *shlex.split(command))
    assert ran.returncode == 0
    assert ran.stdout.split() == shown.split()


def test_the_page_of_commands_is_generated():
    checked = subprocess.run([sys.executable, REPO / "docs" / "generate.py", "--check"], check=False)
    assert checked.returncode == 0, "run: python docs/generate.py"
