"""Slash commands: what a line typed at the prompt asks for."""

import difflib
import re
from dataclasses import dataclass

COMMANDS = {
    "/help": ("", "show this"),
    "/exit": ("", "leave; Ctrl-D does the same"),
    "/clear": ("", "forget the conversation; system text and settings stay"),
    "/system": ("[TEXT|off]", "show, set or remove the system text"),
    "/set": ("[NAME VALUE]", "change a setting; VALUE default takes it back; alone: show them"),
    "/show": ("", "show the model, the context in use, and each setting with its origin"),
    "/stats": ("[off|line|full]", "figures of the last answer and of this session; or what follows every answer"),
}
"""Command -> (its argument, what it does)."""

_ALSO = {"/quit": "/exit", "/bye": "/exit", "/?": "/help"}
_COMMAND = re.compile(r"(/(?:[^\W\d_]+|\?))(?:\s+(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Command:
    """A known command; `name` with its slash."""

    name: str
    argument: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something that looks like a command but is none; `near` is the command most like it, if one is."""

    word: str
    near: str | None


@dataclass(frozen=True, slots=True)
class Surplus:
    """A command that takes no argument, with one."""

    word: str


@dataclass(frozen=True, slots=True)
class Text:
    """A message to the model."""

    content: str


Line = Command | Unknown | Surplus | Text


def parse(line: str) -> Line:
    """Read what was typed.

    A slash and one word, alone or with an argument, is a command in any case; a path (`/tmp/a.txt is missing`) is
    text, and so is everything behind a doubled slash: `//help` says `/help` to the model.
    """
    stripped = line.strip()
    if stripped.startswith("//"):
        return Text(line.replace("//", "/", 1))
    match = _COMMAND.fullmatch(stripped)
    if match is None:
        return Text(line) if stripped != "/" else Command("/help", "")
    word, argument = match[1].lower(), (match[2] or "").strip()
    name = _ALSO.get(word, word)
    if name in COMMANDS:
        return Surplus(match[1]) if argument and not COMMANDS[name][0] else Command(name, argument)
    near = difflib.get_close_matches(word, [*COMMANDS, *_ALSO], n=1)
    return Unknown(match[1], near[0] if near else None)


def help_rows() -> list[tuple[str, str]]:
    """Every command and key, and what it does."""
    rows = [(f"{name} {argument}".rstrip(), words) for name, (argument, words) in COMMANDS.items()]
    return [
        *rows,
        ("Enter", "send the message"),
        ("Alt-Enter", "new line; or begin and end a message with triple quotes"),
        ("Ctrl-C", "end the answer; at the prompt clear the line, twice on an empty one leaves"),
        ("Ctrl-X Ctrl-E", "write the message in your editor"),
        ("//…", "a message that begins with a slash"),
    ]
