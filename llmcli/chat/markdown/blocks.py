"""Which part of a growing Markdown text is finished, whatever follows. Pure; no I/O."""

import re
from dataclasses import dataclass

from markdown_it.tree import SyntaxTreeNode

from llmcli.chat.markdown.grammar import parse_blocks, span

_LINES = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True)
class Lead:
    """What the rest of a block that was cut has to remember: Markdown to parse before it, none of it shown.

    code: the cut is inside of code, where a blank line is a line of code and no gap between blocks.
    """

    source: str = ""
    code: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of the answer that nothing can change any more: `text`, to be parsed after `lead`."""

    lead: Lead
    text: str


class Blocks:
    """Splits a text that comes in pieces. What `add` and `cut` return and `rest` are, in order, the whole text.

    The pieces do not matter: each line is looked at when it is complete. A list that is interrupted by two blank
    lines ends there (CommonMark would go on), so that a model that repeats empty lines costs no more per line.
    """

    def __init__(self) -> None:
        self.lead = Lead()
        self.rest = ""
        """The unfinished block."""

    def add(self, text: str) -> list[Block]:
        """Take more text; return what is finished by it."""
        finished: list[Block] = []
        for line in _LINES.findall(text):
            self.rest += line
            if line.endswith("\n"):
                finished += self._close()
        return finished

    def cut(self, at: int, lead: Lead) -> Block:
        """Finish the first `at` characters of the rest; what follows them is parsed after `lead`."""
        block = Block(self.lead, self.rest[:at])
        self.lead, self.rest = lead, self.rest[at:]
        return block

    def _close(self) -> list[Block]:
        source = self.lead.source + self.rest
        nodes = parse_blocks(source).children
        if not nodes or is_closed(nodes[-1], source):
            return [self.cut(len(self.rest), Lead())]
        start = offset_of_line(source, span(nodes[-1])[0]) - len(self.lead.source)
        return [self.cut(start, Lead())] if start > 0 else []


def is_closed(node: SyntaxTreeNode, source: str) -> bool:
    """Whether the last block of `source`, whose lines are all complete, can have no further line."""
    *_, before, last, _end = ("", "", *source.split("\n"))
    if node.type in {"heading", "hr"}:
        return True
    if node.type == "fence":
        return fence_is_closed(node, source)
    if node.type in {"paragraph", "table", "blockquote"}:
        return not last.strip()
    return not last.strip() and not before.strip() and not _in_open_fence(node, source)


def _in_open_fence(node: SyntaxTreeNode, source: str) -> bool:
    while node.children:
        node = node.children[-1]
    return node.type == "fence" and not fence_is_closed(node, source)


def fence_is_closed(node: SyntaxTreeNode, source: str) -> bool:
    """Whether a fence has its closing line."""
    first, end = span(node)
    if end - first < 2:
        return False
    lines = source.split("\n")
    mark = lines[end - 1].strip(" \t>")
    indent = lines[end - 1].find(mark) - lines[first].find(node.markup)
    return len(mark) >= len(node.markup) and not mark.strip(node.markup[0]) and indent < 4


def ends_blank(text: str) -> bool:
    """Whether the last line of `text` is complete, and blank but for the marks of quotations."""
    return text.endswith("\n") and not text[:-1].rpartition("\n")[2].strip(" \t>")


def offset_of_line(source: str, number: int) -> int:
    """Where in `source` the line with this number (from 0) begins."""
    at = 0
    for _ in range(number):
        at = source.index("\n", at) + 1
    return at
