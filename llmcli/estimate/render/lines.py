"""Styled lines of text: wrapped on a terminal, whole and plain into a pipe."""

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from llmcli import console

_NARROW = "\u0300"
"""Every character before this one is one cell wide."""
_LEAST = 12
"""Characters that a line of text has at least."""
_GLUE = "\u00a0"
"""A blank that no line is broken at."""
_UNIT = re.compile(r"(?<=\d) (?=[GMk]?i?B\b|bytes\b|tokens\b|×)")


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line. style: as rich writes it."""

    text: str
    style: str = ""


Line = tuple[Span, ...]
BLANK: Line = ()


@dataclass(frozen=True, slots=True)
class Paper:
    """What is written on. width: characters a line of a table may have. wraps: sentences are wrapped at it.

    unicode: it shows more than ASCII.
    """

    width: int
    wraps: bool
    unicode: bool


def stdout_paper() -> Paper:
    """The terminal behind stdout, or a pipe, where lines may be long."""
    return Paper(console.columns(), sys.stdout.isatty(), console.shows_unicode(sys.stdout))


def cells(text: str) -> int:
    """Columns that a terminal takes for `text`."""
    if all(character < _NARROW for character in text):
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def shown(text: str) -> str:
    """A name from a file or a person, on one line and without what a terminal would act on."""
    return console.without_controls(text.replace("\n", " ").replace("\t", " "))


def sentence(text: str, paper: Paper, *, indent: int = 0, style: str = "") -> list[Line]:
    """One sentence, its further lines indented by two more than the first; numbers stay with their units."""
    text = shown(text)
    if not paper.wraps:
        return [(Span(" " * indent + text, style),)]
    wrapped = _wrapped(_UNIT.sub(_GLUE, text), max(paper.width, indent + _LEAST), indent)
    return [(Span(part.replace(_GLUE, " "), style),) for part in wrapped]


def _wrapped(text: str, width: int, indent: int) -> list[str]:
    """`text` in lines of at most `width` columns, broken at blanks, and inside of words that no line can hold."""
    lines = [" " * indent]
    for word in text.split(" "):
        gap = " " if lines[-1].strip() else ""
        rest = word
        if cells(lines[-1] + gap + rest) > width and gap:
            lines.append(" " * (indent + 2))
            gap = ""
        while cells(lines[-1] + gap + rest) > width:
            most = next(i for i in range(len(rest), 0, -1) if i == 1 or cells(lines[-1] + rest[:i]) <= width)
            lines[-1] += rest[:most]
            lines.append(" " * (indent + 2))
            rest = rest[most:]
        lines[-1] += gap + rest
    return lines


def listed(parts: Iterable[str], paper: Paper) -> list[Line]:
    """Short texts with commas between them, none broken."""
    lines = sentence(", ".join(part.replace(" ", _GLUE) for part in parts), paper)
    return [tuple(Span(span.text.replace(_GLUE, " "), span.style) for span in line) for line in lines]


def plain(lines: Iterable[Line]) -> str:
    """The lines without styles and without blanks at their ends."""
    return "".join("".join(span.text for span in line).rstrip() + "\n" for line in lines)


def show(lines: Iterable[Line]) -> None:
    """Print on stdout. Raises OutputClosed, OutputFailed."""
    if console.plain(sys.stdout) or not console.shows_unicode(sys.stdout):
        console.write(console.fit_encoding(plain(lines), sys.stdout))
        return
    from rich.text import Text

    page = Text("\n").join(Text.assemble(*((span.text, span.style) for span in line)) for line in lines)
    console.show(page)
