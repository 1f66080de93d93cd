"""Stand-ins for pieces of a message while a chat template writes around them."""

import re
import secrets

from llmcli.engine.control import ControlTokens

Spans = tuple[tuple[int, int], ...]
"""Pieces of a text, from the first to after the last character."""

_OPEN, _CLOSE = "\U000f5a00", "\U000f5a01"
"""Private-use characters: no normal form, letter case or markup changes them, and no template strips them."""


def new_name() -> str:
    """A text that nobody can have typed, and that neither contains another such name nor begins one."""
    return f"{_OPEN}{secrets.randbits(64)}{_CLOSE}"


class Placeholders:
    """Hides the places where messages spell control tokens, and shows them again in the rendered text.

    A template then cannot mistake such text for its own, nor cut it in two.
    """

    def __init__(self, control: ControlTokens) -> None:
        self._control = control
        self._hidden: dict[str, str] = {}

    def hide(self, text: str) -> str:
        """`text` with a placeholder for everything that looks like a control token."""
        return self._control.pattern.sub(lambda match: self._hide(match[0]), text)

    def _hide(self, text: str) -> str:
        name = new_name()
        self._hidden[name] = text
        return name

    def show(self, text: str) -> tuple[str, Spans]:
        """The text with everything back in place, and the spans of what had been hidden."""
        if not self._hidden:
            return text, ()
        pieces: list[str] = []
        spans: list[tuple[int, int]] = []
        length = 0
        for piece in re.split(f"({_OPEN}\\d+{_CLOSE})", text):
            shown = self._hidden.get(piece, piece)
            if piece in self._hidden:
                spans.append((length, length + len(shown)))
            pieces.append(shown)
            length += len(shown)
        return "".join(pieces), tuple(spans)
