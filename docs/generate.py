"""Write docs/commands.md from the commands themselves. Usage: python docs/generate.py [--check]."""

import sys
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from llmcli.cli.app import app

TARGET = Path(__file__).with_name("commands.md")
HEAD = "# Commands\n\nGenerated from the program by `python docs/generate.py`.\n"


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


def page() -> str:
    """The whole document."""
    root = typer.main.get_command(app)
    parts = [HEAD, command_page("llmcli", root)]
    for name, command in root.commands.items():
        parts.append(command_page(f"llmcli {name}", command))
        parts += [command_page(f"llmcli {name} {n}", c) for n, c in getattr(command, "commands", {}).items()]
    return "\n".join(parts)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(TARGET.read_text(encoding="utf-8") != page())
    TARGET.write_text(page(), encoding="utf-8")
