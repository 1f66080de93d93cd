"""Lines that other threads have for the person: said above the prompt, or when there is one again."""

import threading
from collections.abc import Callable

from llmcli.chat.reader import Reader


class Notes:
    """Keeps a line until there is a place for it."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._waiting: list[str] = []

    def add(self, text: str, reader: Reader) -> None:
        """Say `text` above the line that is being typed, or keep it until one is; from any thread."""
        with self._lock:
            self._waiting.append(text)
        reader.above(self.flush)

    def offer(self, reader: Reader) -> None:
        """A line is being typed: say what has been waiting, if anything has, above it."""
        if self._waiting:
            reader.above(self.flush)

    def flush(self) -> None:
        """Say what has been waiting."""
        with self._lock:
            texts, self._waiting = self._waiting, []
        for text in texts:
            self._say(text)
