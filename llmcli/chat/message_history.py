"""What was typed in earlier conversations, for the arrow keys: one private file, read from its end."""

import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from prompt_toolkit.history import History

from llmcli.paths import display

READ_BYTES = 512 * 1024
"""Only so much of the file's end is read: an old, long history must not delay the prompt."""

LONGEST = 16 * 1024
"""Longer messages are not kept: they are pastes, which the arrow keys could not show anyway."""


class MessageHistory(History):
    """Messages in a file that only its owner can read, in prompt-toolkit's format: `+` before every line.

    A file that cannot be read or written is said once, and the conversation goes on without it.
    """

    def __init__(
        self, path: Path, notice: Callable[[str], None], expanded: Callable[[str], str] = lambda line: line
    ) -> None:
        """expanded: a line as it is sent, with long pastes in full; only that means something the next time."""
        super().__init__()
        self._expanded = expanded
        self._path = path
        self._notice = notice
        self._usable = True

    def load_history_strings(self) -> Iterable[str]:
        """Newest first."""
        try:
            if not self._path.is_file() and self._path.exists():  # a pipe would never end
                self._give_up(OSError("it is no file"))
                return []
            with self._path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - READ_BYTES))
                data = file.read(READ_BYTES)
        except FileNotFoundError:
            return []
        except OSError as error:
            self._give_up(error)
            return []
        return list(reversed(_entries(data.decode("utf-8", errors="replace"))))

    def store_string(self, string: str) -> None:
        """Append a message, in one write: several programs may share the file."""
        string = self._expanded(string)
        if not self._usable or len(string) > LONGEST:
            return
        lines = "".join(f"+{line}\n" for line in string.split("\n"))
        data = f"\n# {datetime.now(UTC).isoformat(timespec='seconds')}\n{lines}".encode(errors="replace")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(handle, data)
            finally:
                os.close(handle)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self._usable = False
        reason = error.strerror or str(error)
        self._notice(f"notice: {display(self._path)}: {reason}; what you type is not kept for the next time")


def _entries(text: str) -> list[str]:
    """Messages in the order of the file; a cut first line belongs to none."""
    entries: list[str] = []
    lines: list[str] = []
    for line in [*text.split("\n"), ""]:
        if line.startswith("+"):
            lines.append(line[1:])
        elif lines:
            entries.append("\n".join(lines))
            lines = []
    return entries
