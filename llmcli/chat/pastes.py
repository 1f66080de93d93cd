"""Long pastes: shown at the prompt as a short marker, sent in full."""

import re

LONG_CHARACTERS = 2000
LONG_LINES = 20
"""A paste beyond either is collapsed: drawing it anew at every key would freeze the prompt."""

_MARKER = re.compile(r"\[paste (\d+): [^\]]*\]")


class Pastes:
    """The long pastes of this session."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def shown(self, pasted: str) -> str:
        """What stands in the line for a pasted text: the text itself, or a marker when it is long."""
        text = pasted.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + 1
        if len(text) <= LONG_CHARACTERS and lines <= LONG_LINES:
            return text
        self._texts.append(text)
        return self._marker(len(self._texts))

    def expanded(self, line: str) -> str:
        """The line with its markers replaced by what was pasted; anything else in brackets stays."""

        def full(match: re.Match[str]) -> str:
            number = int(match[1])
            known = 1 <= number <= len(self._texts) and match[0] == self._marker(number)
            return self._texts[number - 1] if known else match[0]

        return _MARKER.sub(full, line)

    def _marker(self, number: int) -> str:
        text = self._texts[number - 1]
        lines = text.count("\n") + 1
        size = f"{len(text):,} characters" + (f", {lines:,} lines" if lines > 1 else "")
        return f"[paste {number}: {size}]"
