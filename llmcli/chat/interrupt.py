"""Ctrl-C, SIGTERM and a closed terminal while an answer runs: the answer ends, and if it does not, the program."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from llmcli.errors import Interrupted, Terminated

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that end the program; SIGHUP comes when its terminal is closed."""

PATIENCE = 2.0
"""Seconds that an answer has to end in: until then a second signal asks for nothing new."""

Handler = Callable[[int, FrameType | None], None]


class Cancellation(threading.Event):
    """Set when the answer should end; `number` is the signal that asked for it."""

    number: int = signal.SIGINT
    settled: bool = False
    """Set when the answer has ended and is being kept: from here on no signal raises anything."""

    @property
    def ends_program(self) -> bool:
        """Whether more than the answer should end."""
        return self.is_set() and self.number in ENDING

    def end(self) -> NoReturn:
        """Raise the error that the program ends with after a cancel."""
        raise Terminated if self.number in ENDING else Interrupted


@contextmanager
def handling(handlers: dict[int, Handler]) -> Iterator[None]:
    """Handle signals in this block; one that was ignored from the start (`nohup`, background jobs) stays ignored.

    Outside the main thread, where no handler can be installed, nothing is handled.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {}
    for number, handler in handlers.items():
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def cancel_on_interrupt() -> Iterator[Cancellation]:
    """A cancellation that the first Ctrl-C, SIGTERM or SIGHUP sets; without effect, a later one ends the program.

    Within PATIENCE the second one is ignored: a key pressed twice, or the SIGHUP that a terminal being closed sends by
    way of the shell and by itself.
    """
    cancel = Cancellation()
    first: float | None = None

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal first
        now = time.monotonic()
        if first is None:  # the answer may be ending already, because nobody reads it
            first, cancel.number = now, number
            cancel.set()
            return
        if number in ENDING:
            cancel.number = number
        if now - first > PATIENCE and not cancel.settled:
            raise Terminated if number in ENDING else KeyboardInterrupt

    with handling(dict.fromkeys((signal.SIGINT, *ENDING), handle)):
        yield cancel
