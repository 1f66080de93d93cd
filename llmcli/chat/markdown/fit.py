"""Cutting the unfinished block where it no longer fits into the window."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markdown_it.tree import SyntaxTreeNode

from llmcli.chat.markdown.blocks import Lead
from llmcli.chat.markdown.cells import border_before
from llmcli.chat.markdown.codeblock import lexing_context
from llmcli.chat.markdown.cuts import Cuts, Layout
from llmcli.chat.markdown.rows import Glyphs, render, table_widths

_TRIES = 4
"""How many places are tried for one that cuts no markup in two."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where the rest is cut, and what remains has to remember."""

    at: int
    lead: Lead


class Fitting:
    """One unfinished block: `rest`, parsed after `lead`, in a window of `width` cells."""

    def __init__(self, lead: Lead, rest: str, width: int, glyphs: Glyphs) -> None:
        self._lead, self._rest = lead.source, rest
        self._width, self._glyphs = width, glyphs
        source = lead.source + rest

        def widths(node: SyntaxTreeNode, line: int, indent: int) -> Sequence[int] | None:
            return table_widths(node, source, line, width - indent)

        self._cuts = Cuts(source, Layout(lexing_context, widths))

    def cut(self, rows: int) -> Cut:
        """A cut after at most `rows` rows, at the best place; after everything when there is none."""
        whole = self._shown(self._lead, self._rest)
        found: list[Cut] = []
        for most in range(rows, max(0, rows - _TRIES), -1):
            for place in (self._line_end, self._word_end):
                cut = self._cut_at(place(most))
                if cut is None:
                    continue
                before, after = self._rest[: cut.at], self._rest[cut.at :]
                if self._shown(self._lead, before) + self._shown(cut.lead.source, after) == whole:
                    return cut
                found.append(cut)
        return found[0] if found else self.everything()

    def everything(self) -> Cut:
        """A cut at the end, whatever is open there; the indentation of a line that has only that is not cut off."""
        begun = self._rest.rpartition("\n")[2]
        at = len(self._rest) - (len(begun) if not begun.strip() else 0) or len(self._rest)
        return Cut(at, self._cuts.lead_at(len(self._lead) + at) or Lead())

    def _cut_at(self, at: int) -> Cut | None:
        lead = self._cuts.lead_at(len(self._lead) + at) if 0 < at < len(self._rest) else None
        return Cut(at, lead) if lead is not None else None

    def _line_end(self, most: int) -> int:
        """The end of the last line with no more than `most` rows before it."""
        ends = [at + 1 for at, character in enumerate(self._rest) if character == "\n"]
        return _last(ends, lambda at: self._height(at) <= most)

    def _word_end(self, most: int) -> int:
        """The last border of words, or of characters, with no more than `most` rows before it."""
        rest = self._rest
        at = _last(range(1, len(rest)), lambda at: self._height(at) <= most)
        start = rest.rfind("\n", 0, at) + 1
        border = rest.rfind(" ", start, at + 1) + 1
        lead = self._cuts.lead_at(len(self._lead) + at)
        if (lead is None or not lead.code) and border > at - self._width and rest[start:border].strip():
            return border
        return border_before(rest, at)

    def _height(self, at: int) -> int:
        return len(render(self._lead + self._rest[:at], self._width, self._glyphs).rows)

    def _shown(self, lead: str, text: str) -> str:
        """All that is shown, but for spaces and rules."""
        rows = render(lead + text, self._width, self._glyphs).rows
        return "".join("".join(row.text.plain.split()) for row in rows if row.text.plain.strip(f" {self._glyphs.rule}"))


def _last(places: Sequence[int], fits: Callable[[int], bool]) -> int:
    """The last place that fits, if those before it fit too; 0 when none does."""
    low, high = 0, len(places)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if fits(places[middle]) else (low, middle)
    return places[low - 1] if low else 0
