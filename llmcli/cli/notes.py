"""Lines that other threads have for the person: said above the prompt, or after the answer that is running."""

import threading
from collections.abc import Callable
from functools import partial

from llmcli.chat.reader import Reader


class Notes:
    """Keeps a line until there is a place for it."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._waiting: list[str] = []

    def add(self, text: str, reader: Reader) -> None:
        """Say `text` above the line that is being typed, or when the running answer has ended; from any thread."""
        if reader.waiting:
            reader.above(partial(self._say, text))
            return
        with self._lock:
            self._waiting.append(text)

    def flush(self) -> None:
        """Say what has been waiting."""
        with self._lock:
            texts, self._waiting = self._waiting, []
        for text in texts:
            self._say(text)
