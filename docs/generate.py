"""Write what the documents take from the program. Usage: python docs/generate.py [--check].

commands.md: the commands themselves. sizing.md: what the commands in its ```console blocks print, and the table of
models between its marks.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from enum import Enum
from pathlib import Path
from typing import Any

import typer
from model_table import model_table

from llmcli.cli.app import app

DOCS = Path(__file__).parent
HEAD = "# Commands\n\nGenerated from the program by `python docs/generate.py`.\n"
TRANSCRIPT = re.compile(r"```console\n\$ llmcli (?P<command>.*)\n(?s:.*?)```")
TABLE = re.compile(r"(?<=<!-- models -->\n)(?s:.*?)(?=<!-- end of models -->)")


def command_page(path: str, command: Any) -> str:
    """One command: its purpose, and a table of its arguments and flags."""
    rows = [row for parameter in command.params if (row := parameter_row(parameter))]
    usage = " ".join([path, *(p.metavar or p.name.upper() for p in command.params if not p.opts[0].startswith("-"))])
    table = ["| argument or flag | meaning |", "|---|---|", *rows] if rows else []
    return "\n".join([f"## `{usage}`", "", (command.help or "").strip(), "", *table, ""])


def parameter_row(parameter: Any) -> str | None:
    """A table row, None for what every command has."""
    if "--help" in parameter.opts:
        return None
    if parameter.opts[0].startswith("-"):
        names = ", ".join(f"`{name}`" for name in parameter.opts)
        names += f" {parameter.metavar}" if parameter.metavar else ""
    else:
        names = f"`{parameter.metavar or parameter.name.upper()}`"
    meaning = parameter.help or ""
    if isinstance(parameter.default, Enum):
        meaning += f" One of {', '.join(f'`{choice.value}`' for choice in type(parameter.default))}."
    default = getattr(parameter.default, "value", parameter.default)
    if isinstance(default, (str, int, float)) and not isinstance(default, bool) and default != "":
        meaning += f" Default: `{default}`."
    return f"| {names} | {meaning.replace('|', '/')} |"


def commands_page() -> str:
    """The whole of commands.md."""
    root = typer.main.get_command(app)
    parts = [HEAD, command_page("llmcli", root)]
    for name, command in root.commands.items():
        parts.append(command_page(f"llmcli {name}", command))
        parts += [command_page(f"llmcli {name} {n}", c) for n, c in getattr(command, "commands", {}).items()]
    return "\n".join(parts)


def sizing_page(text: str) -> str:
    """sizing.md with every transcript and the table made anew."""
    return TABLE.sub(lambda _: model_table(), TRANSCRIPT.sub(transcript, text))


def transcript(block: re.Match[str]) -> str:
    """A ```console block with what its command prints, warnings first, for a user who has nothing on this disk."""
    command = block["command"]
    with tempfile.TemporaryDirectory() as home:
        own = {"LLMCLI_HOME": home, "HF_HOME": home, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONUTF8": "1"}
        ran = subprocess.run(  # noqa: S603 - the commands stand in our own page
            [sys.executable, "-m", "llmcli", *shlex.split(command)],
            capture_output=True, encoding="utf-8", check=True, env={**os.environ, **own},
        )  # fmt: skip
    return f"```console\n$ llmcli {command}\n{ran.stderr}{ran.stdout}```"


def pages() -> dict[Path, str]:
    """Every generated page and its text."""
    sizing = DOCS / "sizing.md"
    return {DOCS / "commands.md": commands_page(), sizing: sizing_page(sizing.read_text(encoding="utf-8"))}


def unversioned(text: str) -> str:
    """Without the last number of transformers' version, which changes no size."""
    return re.sub(r"\b5\.24\.\d+\b", "5.24", text)


if __name__ == "__main__":
    made = pages()
    if "--check" in sys.argv:
        sys.exit(any(unversioned(file.read_text(encoding="utf-8")) != unversioned(text) for file, text in made.items()))
    for file, text in made.items():
        file.write_text(text, encoding="utf-8")
