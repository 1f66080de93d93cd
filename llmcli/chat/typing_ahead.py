"""What is typed while an answer runs: kept for the next prompt, and not shown in the middle of the answer."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def unechoed() -> Iterator[None]:
    """Turn the terminal's echo off for the block; without a terminal, or on Windows, change nothing."""
    try:
        import termios

        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (ImportError, OSError, ValueError, AttributeError):
        yield
        return
    except termios.error:
        yield
        return
    quiet = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    termios.tcsetattr(descriptor, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
