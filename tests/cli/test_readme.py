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
    """Text without figures, units, machine and line breaks: what has to be the same on every run."""
    kept = [line for line in text.splitlines() if " threads · " not in line and "torch " not in line]
    text = " ".join(line for line in kept if not line.startswith(("notice: unstable", "bench ")))
    return " ".join(re.sub(r"(?<![a-z.\d+@])\d+(\.\d+)? ?(ms|s|%)?(?![a-z+\d])", "N", text).split())


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
    loaded, *figures = ran.stderr.splitlines() if command.startswith("chat") else [""]
    assert " ".join(ran.stdout.split()) in " ".join(shown.split()) or command.startswith("bench")
    assert masked("\n".join([loaded, ran.stdout, *figures])) == masked(shown)


def test_the_page_of_commands_is_generated():
    checked = subprocess.run([sys.executable, REPO / "docs" / "generate.py", "--check"], check=False)
    assert checked.returncode == 0, "run: python docs/generate.py"
