"""Screens for an answer: the terminal or pipe behind stdout, as text or as Markdown, or nothing."""

import sys
from contextlib import AbstractContextManager, suppress

from llmcli import console
from llmcli.errors import OutputFailed

SHOW_FROM_TOKENS = 512
"""Shorter prompts are evaluated before a progress bar could be read."""


class StdoutScreen:
    """Streams to stdout: unchanged into a pipe or file, without control characters onto a terminal."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        self._progress: AbstractContextManager[console.Report] | None = None
        self._report: console.Report | None = None
        self._ends_line = True

    def prefill(self, evaluated: int, total: int) -> None:
        """A progress bar with time left on a terminal's stderr, for prompts long enough to wait for."""
        if total < SHOW_FROM_TOKENS or console.plain(sys.stderr):
            return
        if self._progress is None:
            self._progress = console.progress("prefill", unit="tok")
            self._report = self._progress.__enter__()
        if self._report is not None:
            self._report(evaluated, total)
        if evaluated >= total:
            self.end_progress()

    def end_progress(self) -> None:
        """Take the progress bar away, also when prefill was cut short."""
        if self._progress is not None:
            self._progress.__exit__(None, None, None)
            self._progress = self._report = None

    def write(self, text: str) -> None:
        """Write and flush; raises OutputFailed when the reader is gone."""
        if self._terminal:
            text = console.without_controls(text)
        if text:
            console.write(text)
            self._ends_line = text.endswith("\n")

    def end(self) -> None:
        """End the last line, unless the answer did; by now a reader may be gone."""
        self.end_progress()
        if not self._ends_line:
            self._ends_line = True
            with suppress(OutputFailed):
                console.write("\n")


class HiddenScreen(StdoutScreen):
    """Shows progress only; the text goes into a record."""

    def write(self, text: str) -> None:
        """Show nothing."""


class MarkdownScreen(StdoutScreen):
    """Shows the answer as Markdown while it is written, on a terminal that can redraw rows."""

    def __init__(self) -> None:
        super().__init__()
        from llmcli.chat.markdown.stream import MarkdownStream

        self._stream = MarkdownStream()

    def write(self, text: str) -> None:
        """Show `text` within 1/30 s; raises OutputFailed when the terminal is gone."""
        self._stream.add(text)

    def end(self) -> None:
        """Leave the answer as it is, with the cursor under it; may be called again."""
        self.end_progress()
        with suppress(OutputFailed):
            self._stream.finish()


def screen_for(*, plain: bool, hidden: bool) -> StdoutScreen:
    """The screen for an answer: none when `hidden`, text when `plain` or where no row can be redrawn, else Markdown."""
    if hidden:
        return HiddenScreen()
    return StdoutScreen() if plain or console.plain(sys.stdout) else MarkdownScreen()
