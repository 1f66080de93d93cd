"""What is typed while an answer runs: kept for the next prompt, and not shown in the middle of the answer."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from llmcli.chat.interrupt import handling


@contextmanager
def unechoed(*, keys: bool) -> Iterator[None]:
    """Turn the terminal's echo off for the block; without a terminal, or on Windows, change nothing.

    keys: what is typed will be read key by key, so Enter and Ctrl-D are kept as keys and not as ends of lines, and
    Ctrl-C ends an answer without throwing away what has been typed.
    """
    try:
        import termios
    except ImportError:
        yield
        return
    try:
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (OSError, ValueError, AttributeError, termios.error):
        yield
        return
    quiet = [*before]
    quiet[3] &= ~termios.ECHO
    if keys:
        quiet[3] = (quiet[3] & ~termios.ICANON) | termios.NOFLSH
        quiet[0] &= ~termios.ICRNL

    def be_quiet(*_signal: object) -> None:
        with suppress(termios.error, OSError):  # the terminal may be gone
            if os.tcgetpgrp(descriptor) == os.getpgrp():  # a program in the background would be stopped
                termios.tcsetattr(descriptor, termios.TCSANOW, quiet)

    be_quiet()
    try:
        with handling({signal.SIGCONT: be_quiet}):  # a shell has set its own after Ctrl-Z
            yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
