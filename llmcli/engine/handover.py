"""What the inference thread hands to the thread that makes text of it."""

import threading
import time
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue

from llmcli.engine.generate import Generated
from llmcli.inference import PrefillProgress

Step = PrefillProgress | Generated

FRAME = 1 / 30
"""Seconds between two positions that wake the reader: nobody reads faster."""

_LONGEST_WAIT = 0.5
"""A wait without end cannot be interrupted on Windows."""


class Handover:
    """Steps of one request in their order, from the thread that makes them to the one that reads them.

    Decode keeps every core busy, so a reader that is woken takes one away, and the other cores wait for it as well. It
    is woken for the first position at once, and again for every one that takes a frame or longer; faster ones are
    read several at a time.

    put: hands a step over.
    """

    def __init__(self) -> None:
        self._steps: SimpleQueue[Step | None] = SimpleQueue()
        self._ended = threading.Event()
        self._next_frame = 0.0
        self.put: Callable[[Step], None] = self._steps.put

    def end(self) -> None:
        """No more steps will come: wakes the reader at once."""
        self._steps.put(None)
        self._ended.set()

    def __iter__(self) -> Iterator[Step]:
        """All steps up to the end."""
        while (step := self._take()) is not None:
            yield step

    def _take(self) -> Step | None:
        if not self._steps.empty():
            return self._steps.get()
        self._ended.wait(self._next_frame - time.monotonic())
        while True:
            try:
                step = self._steps.get(timeout=_LONGEST_WAIT)
            except Empty:
                continue
            if isinstance(step, Generated):
                self._next_frame = time.monotonic() + FRAME
            return step
