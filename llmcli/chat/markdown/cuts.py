"""Where an unfinished block can be cut, and what its rest has to remember. Pure; no I/O.

A cut needs no more than a source: the rest is parsed after a *lead* that opens the same containers. An item that goes
on begins with `CONTINUED` in place of its text, a paragraph that goes on with `CONTINUED`, a fence with the code that
a lexer needs to know and `CONTINUED`, a table with a header of as many `CONTINUED` as its columns have cells.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markdown_it.tree import SyntaxTreeNode

from llmcli.chat.markdown.blocks import Lead, ends_blank, fence_is_closed
from llmcli.chat.markdown.grammar import CONTINUED, parse, span

_ITEM = re.compile(r"( *)([-+*]|\d{1,9}[.)])( *)(.*)")
_QUOTE = re.compile(r" {0,3}> ?")


@dataclass(frozen=True, slots=True)
class Layout:
    """What a lead takes from how a block is shown.

    context: takes the info string of a fence and its code up to a cut; gives what a lexer has to read again.
    widths: takes a table, the line of the source where it is cut, and the cells of what it is inside of; gives the
        cells of its columns, or None when its rows are shown as records.
    """

    context: Callable[[str, str], str]
    widths: Callable[[SyntaxTreeNode, int, int], Sequence[int] | None]


@dataclass(slots=True)
class _Opening:
    """A lead in the making: lines, and what every further line begins with."""

    source: str = ""
    prefix: str = ""
    item: str | None = None
    """An item that has its mark and no end of line yet."""

    def settle(self) -> None:
        """End an item's line; what comes next is another block in it."""
        if self.item is not None:
            self.source += f"{self.item}{CONTINUED}\n{self.prefix.rstrip()}\n"
            self.item = None

    def paragraph(self) -> None:
        self.source += (self.prefix if self.item is None else self.item) + CONTINUED
        self.item = None


class Cuts:
    """The cuts of one source: a lead, and the text after it."""

    def __init__(self, source: str, layout: Layout) -> None:
        self._source = source
        self._lines = source.split("\n")
        self._children = parse(source).children
        self._layout = layout

    def lead_at(self, at: int) -> Lead | None:
        """What the text from offset `at` has to remember; None where no cut is possible."""
        before = self._source[:at]
        line, column = before.count("\n"), at - (before.rfind("\n") + 1)
        position: float = line
        at_end = not self._source[at:].strip(" \t>")
        if column:
            position = line + 0.5
        elif at_end:
            position = max((n for n, text in enumerate(self._lines) if text.strip(" \t>")), default=0) + 0.5
        return self._lead(position, column, closed=ends_blank(before), at_end=at_end)

    def _lead(self, position: float, column: int, *, closed: bool, at_end: bool) -> Lead | None:
        opening = _Opening()
        nodes = self._children
        while (node := _around(nodes, position)) is not None:
            if node.type == "blockquote":
                nodes = self._enter_quote(node, opening)
            elif node.type in {"bullet_list", "ordered_list"}:
                item = self._enter_item(node, position, opening)
                if item is None:
                    return None
                nodes = item.children if position < span(item)[1] else []
            else:
                break
        return self._leaf(node, position, column, opening, closed=closed, at_end=at_end)

    def _enter_quote(self, node: SyntaxTreeNode, opening: _Opening) -> list[SyntaxTreeNode]:
        opening.settle()
        mark = _QUOTE.match(self._lines[span(node)[0]][len(opening.prefix) :])
        opening.prefix += mark[0] if mark else "> "
        return node.children

    def _enter_item(self, node: SyntaxTreeNode, position: float, opening: _Opening) -> SyntaxTreeNode | None:
        opening.settle()
        number = max(n for n, item in enumerate(node.children) if span(item)[0] < position)
        item = node.children[number]
        line = self._lines[span(item)[0]].expandtabs(4)
        match = _ITEM.match(line[len(opening.prefix) :])
        if match is None:
            return None
        pad = len(match[3]) if 1 <= len(match[3]) <= 4 and match[4] else 1
        width = len(match[1] + match[2]) + pad
        mark = match[2]
        if node.type == "ordered_list":
            counted = f"{int(node.attrs.get('start', 1)) + number}{mark[-1]}"
            mark = counted if len(match[1]) + len(counted) < width else mark
        opening.item = opening.prefix + (match[1] + mark).ljust(width)
        opening.prefix += " " * width
        return item

    def _leaf(
        self,
        node: SyntaxTreeNode | None,
        position: float,
        column: int,
        opening: _Opening,
        *,
        closed: bool,
        at_end: bool,
    ) -> Lead | None:
        kind = node.type if node is not None else ""
        if node is not None and kind == "fence" and not self._beyond_fence(node, position, column):
            return self._in_fence(node, position, column, opening)
        if node is not None and kind == "table" and not closed:
            if not column:
                return self._in_table(node, position, opening)
            if not at_end:
                return None
        if column or (kind == "paragraph" and not closed):
            if kind == "code_block":
                opening.settle()
                opening.prefix += "    "
            opening.paragraph()
            return Lead(opening.source + ("" if column else "\n"), code=kind == "code_block")
        opening.settle()
        return Lead(opening.source, code=kind == "code_block" and not closed)

    def _beyond_fence(self, node: SyntaxTreeNode, position: float, column: int) -> bool:
        """Whether a cut is in the closing line of a fence or after it."""
        return position > span(node)[1] - 1 and not column and fence_is_closed(node, self._source)

    def _in_fence(self, node: SyntaxTreeNode, position: float, column: int, opening: _Opening) -> Lead:
        opening.settle()
        first = span(node)[0]
        mark = self._lines[first].find(node.markup)
        indent = " " * max(0, min(3, mark - len(opening.prefix)))
        whole = int(position + 0.5) if not column else int(position)
        code = node.content.split("\n")
        before = "".join(line + "\n" for line in code[: whole - first - 1])
        if column and whole > first:
            line = code[whole - first - 1] if whole - first - 1 < len(code) else ""
            before += line[: max(0, column - (len(self._lines[whole]) - len(line)))]
        context = self._layout.context(node.info, uncut(before))
        lines = f"{node.markup}{node.info}\n{context}{CONTINUED}".split("\n")
        source = "\n".join(opening.prefix + indent + line for line in lines)
        return Lead(opening.source + source + ("" if column else "\n"), code=True)

    def _in_table(self, node: SyntaxTreeNode, position: float, opening: _Opening) -> Lead | None:
        first = span(node)[0]
        if position < first + 1.5:
            return None
        opening.settle()
        header, rule = self._lines[first][len(opening.prefix) :], self._lines[first + 1][len(opening.prefix) :]
        widths = self._layout.widths(node, int(position + 0.5), len(opening.prefix))
        if widths is None:
            header = f"|{CONTINUED}{header.removeprefix('|')}"
        else:
            header = "|" + "|".join(CONTINUED * width for width in widths) + "|"
        return Lead(f"{opening.source}{opening.prefix}{header}\n{opening.prefix}{rule}\n")


def _around(nodes: Sequence[SyntaxTreeNode], position: float) -> SyntaxTreeNode | None:
    """The block that begins before `position` and ends after it."""
    return next((node for node in nodes if span(node)[0] < position < span(node)[1]), None)


def uncut(code: str) -> str:
    """`code` without the mark of an earlier cut."""
    return code.replace(CONTINUED + "\n", "").replace(CONTINUED, "")


def split_code(code: str) -> tuple[str, str]:
    """The code of a fence: what only a lexer has to know, and what is shown."""
    context, mark, shown = code.partition(CONTINUED)
    return (context, shown.removeprefix("\n")) if mark else ("", code)
