"""Markdown on a terminal while it is being written: what is finished goes to the scrollback, the rest is redrawn."""

import sys
import threading
import time
from collections.abc import Callable

from llmcli import console
from llmcli.chat.markdown.grammar import CONTINUED
from llmcli.chat.markdown.live import LiveTail
from llmcli.chat.markdown.page import Page, Room
from llmcli.chat.markdown.paint import Painter
from llmcli.chat.markdown.rows import ASCII, Glyphs

INTERVAL = 1 / 50
"""Seconds between two redraws, at least. Text in frames (engine/handover.py) comes less often, so it never waits."""
_TALLEST = 24
"""Rows of the tail in a window with room for more: a redraw has to be cheap."""
_SLICE = 400
"""Characters that are laid out at once."""
_SEPARATORS = str.maketrans({"\u2028": "\n", "\u2029": "\n", CONTINUED: "\ufffd"})


def _window() -> tuple[int, int]:
    return console.window(sys.stdout)


class MarkdownStream:
    """Shows Markdown that comes in pieces. Both methods raise OutputClosed and OutputFailed; `finish` may be repeated.

    Text that only extends the last row is written at once. Other text is too, unless a redraw has just been: then a
    timer shows it, no later than `INTERVAL` after that.
    """

    def __init__(
        self,
        *,
        write: Callable[[str], None] = console.write,
        window: Callable[[], tuple[int, int]] = _window,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._window, self._clock = window, clock
        self._glyphs = Glyphs() if console.shows_unicode(sys.stdout) else ASCII
        self._page = Page(self._glyphs)
        self._painter = Painter()
        self._live = LiveTail(write)
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        self._failed: BaseException | None = None
        self._drawn_at = -INTERVAL
        self._size = window()

    def add(self, text: str) -> None:
        """Take more text and show it, now or within `INTERVAL`."""
        text = console.without_controls(text.translate(_SEPARATORS))
        with self._lock:
            self._raise_failure()
            if self._extend(text):
                return
            for start in range(0, len(text), _SLICE):
                self._page.add(text[start : start + _SLICE])
                if len(text) > _SLICE:
                    self._page.settle(self._room())
            self._draw_when_due()

    def finish(self) -> None:
        """Show what is left, for good, and end the line."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._raise_failure()
            try:
                self._draw()
            finally:
                self._page = Page(self._glyphs)
            self._live.end()

    def _room(self) -> Room:
        columns, lines = self._size
        return Room(columns, max(1, min(lines - 1, _TALLEST)))

    def _extend(self, text: str) -> bool:
        if self._window() != self._size:
            return False
        shown = self._page.extend(text, self._size[0])
        if shown:
            self._live.append(shown)
        return shown is not None

    def _draw_when_due(self) -> None:
        wait = self._drawn_at + INTERVAL - self._clock()
        if wait <= 0:
            self._draw()
        elif self._timer is None and self._page.new:
            self._timer = threading.Timer(wait, self._tick)
            self._timer.daemon = True
            self._timer.start()

    def _tick(self) -> None:
        with self._lock:
            self._timer = None
            try:
                self._draw()
            except Exception as error:  # noqa: BLE001 - raised in the thread that adds text
                self._failed = error

    def _raise_failure(self) -> None:
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def _draw(self) -> None:
        if not self._page.new:
            return
        self._follow_window()
        final, tail = self._page.take(self._room())
        self._live.show(self._painter.paint(final), self._painter.paint(tail))
        self._drawn_at = self._clock()

    def _follow_window(self) -> None:
        """In another window the rows of the tail may have been wrapped anew, so that they cannot be found again."""
        size = self._window()
        if self._live.height and (size[0] != self._size[0] or self._live.height >= size[1]):
            self._page.keep(self._room())
            self._live.keep()
        self._size = size
