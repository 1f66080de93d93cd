"""The README shows what the program prints, and the generated page is up to date."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from test_default_model import default_home, run_llmcli  # noqa: F401 - a fixture

REPO = Path(__file__).resolve().parents[2]
README = (REPO / "README.md").read_text(encoding="utf-8")
TRANSCRIPTS = re.findall(r"```console\n\$ llmcli (.*)\n((?s:.*?))```", README)


def masked(text):
    """Text without figures, units and machine: what has to be the same on every run."""
    lines = [
        line for line in text.splitlines() if " threads · " not in line and not line.startswith("notice: unstable")
    ]
    text = "\n".join(line for line in lines if "torch " not in line)
    text = re.sub(r"[─━ ]+", " ", text)
    text = re.sub(r"(?<![a-z.])\d+(\.\d+)? ?(ms|s|%)?(?![a-z+\d])", "N", text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def test_two_commands_set_everything_up():
    blocks = re.findall(r"```sh\n((?s:.*?))```", README)
    assert len(blocks) == 2
    assert all(block.count("\n") == 1 for block in blocks)
    assert "llmcli chat -p" in blocks[0]
    assert blocks[1].strip().endswith("/pytest")


def test_there_is_a_transcript_of_every_command():
    assert [command.split()[0] for command, _ in TRANSCRIPTS] == ["chat", "bench", "estimate-kv"]


@pytest.mark.default_model
@pytest.mark.parametrize(("command", "shown"), TRANSCRIPTS, ids=["chat", "bench", "estimate-kv"])
def test_the_transcript_is_what_the_program_prints(default_home, command, shown):  # noqa: F811
    ran = run_llmcli(default_home, *shlex.split(command))
    assert ran.returncode == 0
    if command.startswith("estimate-kv"):
        assert ran.stdout.split() == shown.split()
        return
    answer = [line for line in ran.stdout.splitlines() if command.startswith("chat")]
    assert all(line in shown for line in answer), "the answer itself is shown as it is"
    printed = masked(ran.stdout) + masked(ran.stderr)
    assert sorted(masked(shown)) == sorted(line for line in printed if not line.startswith("bench "))


def test_the_page_of_commands_is_generated():
    checked = subprocess.run([sys.executable, REPO / "docs" / "generate.py", "--check"], check=False)
    assert checked.returncode == 0, "run: python docs/generate.py"
