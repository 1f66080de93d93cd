"""What the inference thread hands to the thread that makes text of it."""

import threading
import time
from collections.abc import Iterator
from queue import Empty, SimpleQueue

from llmcli.engine.generate import Generated
from llmcli.inference import Clock, PrefillProgress

Step = PrefillProgress | Generated

FRAME = 1 / 30
"""Seconds for which a reader that has been woken is left alone: nobody reads faster."""

AT_ONCE = 4
"""Positions at the start that are read as they come: the first character may take as many."""

_LONGEST_WAIT = 0.5
"""A wait without end cannot be interrupted on Windows."""


class Handover:
    """Steps of one request in their order, from the thread that makes them to the one that reads them.

    Decode keeps every core busy, so a reader that is woken takes one away, and the other cores wait for it as well.
    Positions that come faster than a frame are therefore read several at a time, one frame after those before.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._steps: SimpleQueue[Step | None] = SimpleQueue()
        self._ended = threading.Event()
        self._positions = 0
        self._next_frame = clock()

    def put(self, step: Step) -> None:
        """Hand a step over."""
        self._steps.put(step)

    def end(self) -> None:
        """No more steps will come: wakes the reader at once."""
        self._steps.put(None)
        self._ended.set()

    @property
    def more(self) -> bool:
        """Whether the next step, or the end, can be read without a wait."""
        return not self._steps.empty()

    def __iter__(self) -> Iterator[Step]:
        """All steps up to the end."""
        while (step := self._take()) is not None:
            if isinstance(step, Generated):
                self._count()
            yield step

    def _take(self) -> Step | None:
        if not self.more:
            self._ended.wait(self._next_frame - self._clock())
        while True:
            try:
                return self._steps.get(timeout=_LONGEST_WAIT)
            except Empty:
                continue

    def _count(self) -> None:
        self._positions += 1
        now = self._clock()
        if self._positions >= AT_ONCE and now >= self._next_frame:
            self._next_frame = now + FRAME
