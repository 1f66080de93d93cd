"""Tables as lines of text; where there is no room they lose whole columns, never digits."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from llmcli.estimate.render.lines import Line, Span, cells


@dataclass(frozen=True, slots=True)
class Column:
    """One column. heading: one or two lines. styles: of each cell, none for no styles. left: aligned to the left."""

    heading: str
    cells: tuple[str, ...]
    left: bool = False
    styles: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """Characters of the widest cell."""
        return max(map(cells, (*self.heading.splitlines(), *self.cells)), default=0)

    def padded(self, text: str) -> str:
        """`text` filled up to the width."""
        blanks = " " * (self.width - cells(text))
        return text + blanks if self.left else blanks + text


Layout = tuple[Column, ...]


def table(layouts: Sequence[Layout], width: int) -> list[Line]:
    """The first of `layouts` that fits lines of `width`, with two blanks between columns or else with one."""
    for layout in layouts:
        for gap in (2, 1):
            if _needs(layout, gap) <= width:
                return _lines(layout, gap)
    return _lines(layouts[-1], 1)


def _needs(layout: Layout, gap: int) -> int:
    return sum(column.width for column in layout) + gap * (len(layout) - 1)


def _lines(layout: Layout, gap: int) -> list[Line]:
    height = max(len(column.heading.splitlines()) for column in layout)
    headings = [[""] * (height - len(lines)) + lines for lines in (column.heading.splitlines() for column in layout)]
    head = [_line(layout, row, ["bold"] * len(layout), gap) for row in zip(*headings, strict=True)]
    rows = zip(*(zip_longest(column.cells, column.styles, fillvalue="") for column in layout), strict=True)
    return head + [_line(layout, [text for text, _ in row], [style for _, style in row], gap) for row in rows]


def _line(layout: Layout, row: Sequence[str], styles: Sequence[str], gap: int) -> Line:
    spans: list[Span] = []
    for column, text, style in zip(layout, row, styles, strict=True):
        if spans:
            spans.append(Span(" " * gap))
        spans.append(Span(column.padded(text), style))
    return tuple(spans)
