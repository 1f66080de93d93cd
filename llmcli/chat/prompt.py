"""Files, stdin and `-p` to one user message."""

import codecs
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from llmcli.errors import UsageError
from llmcli.inference import Message
from llmcli.paths import display
from llmcli.units import MIB, bytes_text

WAIT_SECONDS = 2.0
"""When a pipe has not ended after so long, a notice says what is being waited for."""

MAX_BYTES = 64 * MIB
"""Longest text that is read: several times what the largest context of today's models holds."""

Notice = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PromptSources:
    """Where a one-shot prompt comes from: `-p`, `-f` files, a piped stdin, and the system text."""

    text: str | None
    files: tuple[Path, ...] = ()
    stdin: bool = False
    system: str | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing was given at all."""
        return self.text is None and not self.files and not self.stdin


def stdin_is_piped() -> bool:
    """Whether stdin is a pipe, a socket or a file, rather than a terminal or /dev/null."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def stdin_is_terminal() -> bool:
    """Whether a person can type into stdin."""
    try:
        return sys.stdin.isatty()
    except (ValueError, AttributeError):
        return False


def read_messages(sources: PromptSources, notice: Notice) -> tuple[Message, ...]:
    """The conversation of a one-shot request: files and stdin first, then the text, as one user message.

    The next question about the same file then shares its prefix. Raises UsageError when a file cannot be read or
    nothing but white space is left.
    """
    parts = [clean(_read_file(file, notice), display(file), notice) for file in sources.files]
    if sources.stdin:
        parts.append(clean(_read_stdin(notice), "stdin", notice))
    if sources.text is not None:
        parts.append(clean(os.fsencode(sources.text), "--prompt", notice))
    content = join(parts)
    if not content.strip():
        raise UsageError("the prompt is empty", "Give a text with -p, a file with -f, or pipe one into stdin.")
    system = clean(os.fsencode(sources.system), "--system", notice) if sources.system else ""
    return (*([Message("system", system)] if system else []), Message("user", content))


def join(parts: Sequence[str]) -> str:
    """Parts with one empty line between them; a final line end of a part does not matter."""
    return "\n\n".join(part for part in (part.rstrip("\n") for part in parts) if part)


def clean(raw: bytes, where: str, notice: Notice) -> str:
    """UTF-8 text with LF line ends and without a byte-order mark; what is not UTF-8 is replaced, and said."""
    raw = raw.removeprefix(codecs.BOM_UTF8)
    text = raw.decode("utf-8", errors="replace")
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        notice(f"{where}: not valid UTF-8 at byte {error.start}; what could not be read is replaced by U+FFFD")
    if "\0" in text:
        notice(f"{where}: holds NUL bytes, which are passed on as they are; is it a text?")
    return text.replace("\r\n", "\n")


def _read_file(path: Path, notice: Notice) -> bytes:
    shown = f"--file {display(path)}"
    try:
        path = path.expanduser()
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise UsageError(f"{shown} is no file", "Give a text file.")
        with (
            _waiting(f"the end of {shown}, which is a pipe", notice) if stat.S_ISFIFO(mode) else nullcontext(),
            path.open("rb") as file,
        ):
            return _limited(file, shown)
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"{shown}: {reason}", "Give a text file that you may read.") from error


def _read_stdin(notice: Notice) -> bytes:
    try:
        with _waiting("the end of stdin, which is a pipe; without one: < /dev/null", notice):
            return _limited(sys.stdin.buffer, "stdin")
    except OSError as error:
        raise UsageError(f"stdin cannot be read: {error.strerror}", "Redirect it: < /dev/null") from error


def _limited(file: IO[bytes], where: str) -> bytes:
    data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UsageError(
            f"{where} holds more than {bytes_text(MAX_BYTES)}, which no model's context can take",
            "Give the part of it that matters.",
        )
    return data


@contextmanager
def _waiting(what: str, notice: Notice) -> Iterator[None]:
    """Say what is waited for when the block takes long."""
    timer = threading.Timer(WAIT_SECONDS, notice, (f"waiting for {what}",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
