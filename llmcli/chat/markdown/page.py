"""What an answer looks like so far: rows that are final, and those of the unfinished block. Knows no terminal."""

import re
from dataclasses import dataclass

from rich.text import Text

from llmcli.chat.markdown.blocks import Block, Blocks, Lead, ends_blank
from llmcli.chat.markdown.cells import cells, is_sure
from llmcli.chat.markdown.fit import Fitting
from llmcli.chat.markdown.rows import Glyphs, Row, Sheet, render

_LONGEST = 4000
"""Characters of the unfinished block: what is parsed again for every redraw has to be cheap."""
_TALLEST = 12
"""Rows of it, but for a table, whose columns are better the more rows they know."""
_PLAIN = re.compile(r"(?:[^\W_]|[ ,.'\"?])+")
"""Characters that, after others of these, are no markup and change none."""


@dataclass(frozen=True, slots=True)
class Room:
    """The cells of a row, and how many rows the unfinished block may have."""

    width: int
    height: int


class Page:
    """Takes text; gives rows. `take` is called for every redraw, and what it gave last is what the screen shows."""

    def __init__(self, glyphs: Glyphs) -> None:
        self.glyphs = glyphs
        self.new = ""
        """What has been added since the last redraw."""
        self._blocks = Blocks()
        self._finished: list[Block] = []
        self._final: list[Row] = []
        self._started = self._gap = False
        self._drawn = Block(Lead(), "")
        self._sheet = Sheet([])
        self._column = 0

    def add(self, text: str) -> None:
        """Take more text."""
        self.new += text
        self._finished += self._blocks.add(text)

    def extend(self, text: str, width: int) -> str | None:
        """Take more text if it only extends the last row on the screen; return what to write there, else None."""
        rest = self._blocks.rest
        if self.new or not self._sheet.prose or len(rest) > _LONGEST:
            return None
        if not (_PLAIN.fullmatch(text) and _PLAIN.fullmatch(rest[-1:]) and is_sure(text)):
            return None
        shown = (rest[len(rest.rstrip(" ")) :] + text).rstrip(" ")
        if self._column + cells(shown) > width:
            return None
        self._blocks.rest += text
        self._drawn = Block(self._drawn.lead, self._drawn.text + text)
        self._column += cells(shown)
        return shown

    def take(self, room: Room) -> tuple[list[Row], list[Row]]:
        """The rows that have become final, and those of the unfinished block; both go where the latter were."""
        self._sheet = self.settle(room)
        final, self._final = self._final, []
        lead, rest = self._blocks.lead, self._blocks.rest
        self._column = cells(self._sheet.rows[-1].text.plain) if self._sheet.rows else 0
        self._drawn, self.new = Block(lead, rest), ""
        return final, self._spaced(self._drawn, self._sheet.rows)

    def settle(self, room: Room) -> Sheet:
        """Make final what is finished, and what does not fit; return what the unfinished block looks like."""
        for block in self._finished:
            self._commit(block, room)
        self._finished = []
        while True:
            block = Block(self._blocks.lead, self._blocks.rest)
            sheet = render(block.lead.source + block.text, room.width, self.glyphs)
            rows = len(self._spaced(block, sheet.rows))
            most = room.height if sheet.table else min(room.height, _TALLEST)
            if not block.text or (rows <= most and len(block.text) <= _LONGEST):
                return sheet
            count = rows - most // 2 if rows > most else rows // 2
            cut = Fitting(block.lead, block.text, room.width, self.glyphs).cut(max(1, count))
            self._commit(self._blocks.cut(cut.at, cut.lead), room, cut.lead)

    def keep(self, room: Room) -> None:
        """Make final what the last `take` gave, as the screen shows it; what has come since goes on below it."""
        drawn, new = self._drawn, self.new
        self._blocks, self._finished, self._final = Blocks(), [], []
        self._blocks.lead, self._blocks.rest = drawn.lead, drawn.text
        if drawn.text:
            cut = Fitting(drawn.lead, drawn.text, room.width, self.glyphs).everything()
            self._blocks.cut(cut.at, cut.lead)
            self._started, self._gap = True, ends_blank(drawn.text[: cut.at]) and not cut.lead.code
        self._sheet, self.new = Sheet([]), ""
        self._drawn = Block(self._blocks.lead, self._blocks.rest)
        self.add(new)

    def _commit(self, block: Block, room: Room, then: Lead | None = None) -> None:
        """Make a block final; `then`: the lead of what follows where it was cut."""
        rows = render(block.lead.source + block.text, room.width, self.glyphs, cut=then is not None).rows
        self._final += self._spaced(block, rows)
        ends = ends_blank(block.text) and not (then and then.code)
        self._gap = ends or (self._gap and not rows)
        self._started = self._started or bool(rows)

    def _spaced(self, block: Block, rows: list[Row]) -> list[Row]:
        return [Row(Text()), *rows] if rows and self._gap_before(block) else rows

    def _gap_before(self, block: Block) -> bool:
        begins = not block.lead.code and block.text.lstrip(" \t").startswith("\n")
        return self._started and (self._gap or begins)
