"""Where a person's messages come from: the interface, and plain lines for terminals that can do no more."""

import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from llmcli.chat.typing_ahead import unechoed
from llmcli.errors import Interrupted, LlmcliError

QUOTES = '"""'
LEAVING = "Ctrl-C again or Ctrl-D leaves"
_SURROGATE = re.compile("[\ud800-\udfff]")


class Reader(Protocol):
    """Reads one message after the other."""

    def read(self) -> str:
        """The next message. Raises EOFError for Ctrl-D, Interrupted for Ctrl-C twice, or what `leave` was given."""
        ...

    def talking(self) -> AbstractContextManager[None]:
        """Around the whole conversation."""
        ...

    def answering(self) -> AbstractContextManager[None]:
        """Around an answer: what is typed meanwhile is kept for the next `read`, and not shown."""
        ...

    @property
    def waiting(self) -> bool:
        """Whether `read` waits in a way that only an exception in the main thread can end."""
        ...

    def leave(self, error: LlmcliError) -> bool:
        """End a `read` that is waiting with `error`, from any thread; False when that cannot be done from outside."""
        ...

    def above(self, show: Callable[[], None]) -> None:
        """If a line is being typed, call `show` so that what it prints does not garble it; from any thread."""
        ...


def readable(text: str) -> str:
    """`text` as every program can encode it: bytes that were no UTF-8 become U+FFFD, line ends become LF."""
    return _SURROGATE.sub("\ufffd", text).replace("\r\n", "\n").replace("\r", "\n")


def quoted_open(text: str) -> bool:
    """Whether a message in triple quotes has begun and not ended."""
    stripped = text.strip()
    return stripped.startswith(QUOTES) and not (len(stripped) >= 2 * len(QUOTES) and stripped.endswith(QUOTES))


def unquoted(text: str) -> str:
    """A message without the triple quotes around it, if it has them."""
    stripped = text.strip()
    whole = stripped.startswith(QUOTES) and stripped.endswith(QUOTES) and len(stripped) >= 2 * len(QUOTES)
    return stripped[len(QUOTES) : -len(QUOTES)].strip("\n") if whole else text


class PlainReader:
    """Lines from stdin, with a mark on stderr and no escapes: for dumb terminals, or when stdout goes elsewhere."""

    def __init__(self, say: Callable[[str], None], begin: Callable[[], None]) -> None:
        self._say = say
        self._begin = begin
        self.waiting = False
        self._error: LlmcliError | None = None

    def read(self) -> str:
        """The next line, or the lines between triple quotes."""
        self._begin()
        interrupted = False
        while True:
            try:
                return unquoted(readable(self._message()))
            except KeyboardInterrupt:
                if interrupted:
                    raise Interrupted from None
                interrupted = True
                self._mark("\n")
                self._say(LEAVING)

    def talking(self) -> AbstractContextManager[None]:
        """Lines are typed and echoed as everywhere."""
        return nullcontext()

    def answering(self) -> AbstractContextManager[None]:
        """No echo."""
        return unechoed(keys=False)

    def leave(self, error: LlmcliError) -> bool:
        """Let the next line end the `read`; a signal handler has to raise as well."""
        self._error = error
        return False

    def above(self, show: Callable[[], None]) -> None:
        """Call `show` on a line of its own, if a line is being waited for."""
        if self.waiting:
            self._mark("\n")
            show()
            self._mark("> ")

    def _message(self) -> str:
        lines = [self._line("> ")]
        while quoted_open("\n".join(lines)):
            lines.append(self._line(". "))
        return "\n".join(lines)

    def _line(self, mark: str) -> str:
        self._mark(mark)
        self.waiting = True
        try:
            line = sys.stdin.buffer.readline()
        except OSError:  # the terminal is gone
            line = b""
        finally:
            self.waiting = False
        if self._error is not None:
            raise self._error
        if not line:
            self._mark("\n")
            raise EOFError
        return line.decode("utf-8", errors="replace").rstrip("\r\n")

    def _mark(self, mark: str) -> None:
        try:
            sys.stderr.write(mark)
            sys.stderr.flush()
        except OSError:
            return
