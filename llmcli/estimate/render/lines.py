"""Styled lines of text: wrapped on a terminal, whole and plain into a pipe."""

import sys
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from llmcli import console

_NARROW = "\u0300"
"""Every character before this one is one cell wide."""


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
    """One sentence, its further lines indented by two more than the first."""
    text = shown(text)
    if not paper.wraps:
        return [(Span(" " * indent + text, style),)]
    wrapped = textwrap.wrap(
        text,
        max(paper.width, indent + 12),
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_on_hyphens=False,
    )
    return [(Span(part, style),) for part in wrapped]


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
