"""A terminal with scrollback, and an answer streamed onto it."""

import re

import pyte

from llmcli.chat.markdown.stream import MarkdownStream


class _Screen(pyte.HistoryScreen):
    def draw(self, data):
        """Character by character: pyte drops what follows a joiner in the same piece."""
        for character in data:
            super().draw(character)


class Terminal:
    """What a person can see by scrolling back; `write` is what the program writes."""

    def __init__(self, columns=80, lines=24):
        self.size = (columns, lines)
        self.written = []
        self._screen = _Screen(columns, lines, history=100_000)
        self._screen.set_mode(pyte.modes.LNM)  # as a terminal in cooked mode: a line feed goes to the first column
        self._stream = pyte.Stream(self._screen)

    def write(self, text):
        self.written.append(text)
        self._stream.feed(text)

    def resize(self, columns, lines):
        self.size = (columns, lines)
        self._screen.resize(lines, columns)

    @property
    def rows(self):
        above = ["".join(row[x].data for x in range(max(row, default=-1) + 1)) for row in self._screen.history.top]
        return [row.rstrip() for row in [*above, *self._screen.display]]

    @property
    def text(self):
        return "\n".join(self.rows).rstrip()

    @property
    def cursor(self):
        return self._screen.cursor


class Clock:
    """Every look is `step` seconds later than the last."""

    def __init__(self, step=1.0):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


def pieces_of(text):
    """Text in pieces about as long as tokens."""
    return re.findall(r"\s?[^\s]{1,4}|\s", text)


def show(text, columns=80, lines=24, pieces=None):
    """The terminal after `text` has been streamed onto it, each piece redrawn."""
    terminal = Terminal(columns, lines)
    stream = MarkdownStream(write=terminal.write, window=lambda: terminal.size, clock=Clock())
    for piece in pieces_of(text) if pieces is None else pieces:
        stream.add(piece)
    stream.finish()
    return terminal
