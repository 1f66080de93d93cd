"""Rows to the characters and escapes that a terminal gets."""

import io
from collections.abc import Sequence

from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment

from llmcli.chat.markdown.grammar import CONTINUED
from llmcli.chat.markdown.live import Line
from llmcli.chat.markdown.rows import Row
from llmcli.console import without_controls

_COLORS = {"standard": ColorSystem.STANDARD, "256": ColorSystem.EIGHT_BIT, "truecolor": ColorSystem.TRUECOLOR}


class Painter:
    """Knows the terminal's colours, and that NO_COLOR leaves bold and italic."""

    def __init__(self) -> None:
        self._console = Console(file=io.StringIO(), force_terminal=True, legacy_windows=False)
        self._colors = _COLORS.get(self._console.color_system or "", ColorSystem.STANDARD)

    def paint(self, rows: Sequence[Row]) -> list[Line]:
        """The lines of a terminal, without a single control character of the model's."""
        return [Line("".join(map(self._painted, self._segments(row))), row.joined) for row in rows]

    def _segments(self, row: Row) -> list[Segment]:
        segments = list(Segment.simplify(row.text.render(self._console)))
        return list(Segment.remove_color(segments)) if self._console.no_color else segments

    def _painted(self, segment: Segment) -> str:
        text = without_controls(segment.text).replace(CONTINUED, "")
        return segment.style.render(text, color_system=self._colors) if segment.style and text else text
