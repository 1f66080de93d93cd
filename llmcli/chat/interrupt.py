"""Ctrl-C and SIGTERM while an answer runs: the first ends the answer, the second the program."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from llmcli.errors import Interrupted, Terminated


class Cancellation(threading.Event):
    """Set when the answer should end; `number` is the signal that asked for it."""

    number: int = signal.SIGINT

    def end(self) -> NoReturn:
        """Raise the error that the program ends with after a cancel."""
        raise Terminated if self.number == signal.SIGTERM else Interrupted


@contextmanager
def cancel_on_interrupt() -> Iterator[Cancellation]:
    """A cancellation that the first Ctrl-C or SIGTERM sets; a second one ends the program.

    Outside the main thread, where no handler can be installed, it is never set by a signal.
    """
    cancel = Cancellation()
    if threading.current_thread() is not threading.main_thread():
        yield cancel
        return

    def handle(number: int, _frame: FrameType | None) -> None:
        if cancel.is_set():
            raise Terminated if number == signal.SIGTERM else KeyboardInterrupt
        cancel.number = number
        cancel.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield cancel
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
