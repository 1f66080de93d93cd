"""Tables: columns that wrap inside their cells, or one record per row where the window is too narrow for columns."""

from collections.abc import Callable, Sequence
from itertools import zip_longest

from markdown_it.rules_block.table import escapedSplit
from markdown_it.tree import SyntaxTreeNode
from rich.style import Style
from rich.text import Text

from llmcli.chat.markdown.cells import cells, wrap
from llmcli.chat.markdown.grammar import CONTINUED, span

_GAP = 2
_NARROWEST = 6
"""Columns that would have fewer cells on average are not worth reading."""
_BOLD = Style(bold=True)


class Table:
    """A parsed table, laid out for `width` cells.

    lines: the source; rows beyond it are left out. inline: makes a cell's text. rule: what underlines the header.
    more: rows will follow that are not known yet; the columns get some of the width that is left.
    """

    def __init__(
        self,
        node: SyntaxTreeNode,
        lines: Sequence[str],
        width: int,
        inline: Callable[..., Text],
        rule: str,
        *,
        more: bool,
    ) -> None:
        self._width = width
        self._more = more
        self._rule = rule
        head, *body = node.children
        self._head = [inline(cell) for cell in head.children[0].children]
        self._aligned = [str(cell.attrs.get("style", "")) for cell in head.children[0].children]
        rows = [row for part in body for row in part.children if span(row)[0] < len(lines)]
        self._rows = [_cells_of(row, lines, inline) for row in rows]

    @property
    def is_continued(self) -> bool:
        """Whether the header is on the screen already, and only says how wide the columns are."""
        return any(CONTINUED in cell.plain for cell in self._head)

    def widths(self) -> list[int] | None:
        """The cells of each column; None when the rows are records."""
        room = self._width - _GAP * (len(self._head) - 1)
        if room < _NARROWEST * len(self._head):
            return None
        if all(cell.plain and not cell.plain.strip(CONTINUED) for cell in self._head):
            widths = [cell.plain.count(CONTINUED) for cell in self._head]
        else:
            widths = [max(3, *map(_longest, column)) for column in zip(self._head, *self._rows, strict=True)]
            if self._more:
                spare = max(0, room - sum(widths)) // len(widths)
                widths = [width + min(spare, max(4, width // 2)) for width in widths]
        while sum(widths) > room:
            widest = max(widths)
            others = [width for width in widths if width < widest]
            spare = sum(widths) - room
            count = len(widths) - len(others)
            widths = _shrink(widths, widest, max([*others, widest - -(-spare // count), 1]))
        return widths

    def lines(self) -> list[Text]:
        """The rows of the terminal."""
        widths = self.widths()
        if widths is None:
            return self._records()
        lines: list[Text] = []
        if not self.is_continued:
            for cell in self._head:
                cell.stylize(_BOLD)
            lines += self._line_up(self._head, widths)
            lines.append(Text((" " * _GAP).join(self._rule * width for width in widths)))
        for row in self._rows:
            lines += self._line_up(row, widths)
        return lines

    def _line_up(self, row: Sequence[Text], widths: Sequence[int]) -> list[Text]:
        wrapped = [wrap(cell, width) for cell, width in zip(row, widths, strict=True)]
        lines = []
        for parts in zip_longest(*wrapped):
            line = Text()
            for column, (part, width) in enumerate(zip(parts, widths, strict=True)):
                line.append(" " * (_GAP if column else 0))
                line.append_text(_aligned(part or Text(), width, self._aligned[column]))
            line.rstrip()
            lines.append(line)
        return lines

    def _records(self) -> list[Text]:
        lines: list[Text] = []
        for number, row in enumerate(self._rows):
            lines += [Text()] if number or self.is_continued else []
            for name, cell in zip(self._head, row, strict=True):
                label = Text().append(name.plain.replace(CONTINUED, "").strip(), _BOLD)
                label.append(": " if label.plain else "")
                lines += wrap(label.append_text(cell), self._width)
        return lines or wrap(Text(" | ").join(self._head), self._width)


def _cells_of(row: SyntaxTreeNode, lines: Sequence[str], inline: Callable[..., Text]) -> list[Text]:
    """A row's cells; what it has beyond the columns of the header, which parsers drop, goes into the last one."""
    texts = [inline(cell) for cell in row.children]
    source = lines[span(row)[0]].strip(" \t>").removeprefix("|").removesuffix("|")
    beyond = escapedSplit(source)[len(texts) :]
    if beyond and texts:
        texts[-1].append(" |" + "|".join(beyond).rstrip())
    return texts


def _longest(text: Text) -> int:
    return max(map(cells, text.plain.split("\n")))


def _shrink(widths: Sequence[int], widest: int, to: int) -> list[int]:
    return [to if width == widest else width for width in widths]


def _aligned(text: Text, width: int, style: str) -> Text:
    room = max(0, width - cells(text.plain))
    left = room if style.endswith("right") else room // 2 if style.endswith("center") else 0
    return Text(" " * left).append_text(text).append(" " * (room - left))
