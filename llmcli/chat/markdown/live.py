"""The rows at the end of the screen that can still change, and the fewest bytes that change them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

_ERASE_BELOW = "\x1b[J"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""A terminal that knows synchronized updates shows what is between these at once; others ignore them."""


@dataclass(frozen=True, slots=True)
class Line:
    """A row as a terminal gets it. joined: no line feed between it and the full row before."""

    text: str
    joined: bool = False


class LiveTail:
    """Draws with `write`; the cursor stays at the end of the last row. Rows above the tail are never touched again."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._tail: list[Line] = []
        self._after_row = False
        """Whether the cursor is at the end of a row that is final, when there is no tail."""

    @property
    def height(self) -> int:
        """How many rows can still change."""
        return len(self._tail)

    def show(self, final: Sequence[Line], tail: Sequence[Line]) -> None:
        """Put `final` and `tail` in place of the tail; `final` stays as it is from now on."""
        new = [*final, *tail]
        same = _common(self._tail, new)
        out = self._change(new, same)
        at_row_end = bool(new) or (self._after_row and not self._tail)
        self._tail = list(tail)
        self._after_row = at_row_end and not tail
        if out:
            self._write(out)

    def append(self, text: str) -> None:
        """Write more of the last row of the tail."""
        last = self._tail[-1]
        self._tail[-1] = Line(last.text + text, last.joined)
        self._write(text)

    def keep(self) -> None:
        """Leave the tail as it is for good, and go on below it."""
        self._after_row = bool(self._tail) or self._after_row
        self._tail = []

    def end(self) -> None:
        """Draw the last row once more, over what the terminal has echoed there, and end it; the tail is final."""
        if self._tail or self._after_row:
            again = f"\r{_ERASE_BELOW}{self._tail[-1].text}" if self._tail else ""
            self._tail, self._after_row = [], False
            self._write(again + "\n")

    def _change(self, new: Sequence[Line], same: int) -> str:
        old = self._tail
        if 0 < same == len(new) < len(old):
            same -= 1  # the cursor belongs at the end of what stays
        if same == len(old):
            below = bool(old) or self._after_row
            return _joined(new[same:], below=below)
        if same == len(old) - 1 and same < len(new) and new[same].text.startswith(old[same].text):
            return new[same].text[len(old[same].text) :] + _joined(new[same + 1 :], below=True)
        up = len(old) - 1 - same
        move = "\r" + (f"\x1b[{up}A" if up else "")
        out = move + _ERASE_BELOW + _joined(new[same:], below=False)
        return f"{_BEGIN}{out}{_END}" if up else out


def _common(old: Sequence[Line], new: Sequence[Line]) -> int:
    count = 0
    for before, after in zip(old, new, strict=False):
        if before != after:
            break
        count += 1
    return count


def _joined(lines: Sequence[Line], *, below: bool) -> str:
    """Lines one under another, the first under the cursor's row when `below`."""
    out = ""
    for number, line in enumerate(lines):
        out += ("\n" if (number or below) and not line.joined else "") + line.text
    return out
