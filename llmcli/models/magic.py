"""What a file is, told by its first bytes; its name may say anything."""

import json
import os
import stat
from pathlib import Path

from llmcli import paths
from llmcli.errors import ModelError, ModelNotFound

GGUF = "a GGUF file"
SAFETENSORS = "a safetensors file"
_PICKLE = "a zip archive or a pickle; pickled weights are never loaded"
_STARTS = {
    b"GGUF": GGUF,
    b"version https://git-lfs": "a Git LFS pointer: the real file was never downloaded (run `git lfs pull`)",
    **dict.fromkeys((b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04"), _PICKLE),
}
_HEAD = 64
_LENGTH = 8  # of the number that a safetensors file starts with: the bytes of its header
_LONGEST_HEADER = 100_000_000


def file_size(path: Path) -> int:
    """The size in bytes of the regular file at `path`.

    Raises ModelError for anything else: a FIFO or a device is never opened, which could block for ever.
    """
    try:
        facts = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise ModelNotFound(f"{paths.display(path)} is not there") from None
    except OSError as error:
        raise unreadable(path, error) from None
    if not stat.S_ISREG(facts.st_mode):
        raise ModelError(f"{paths.display(path)} is {_special(facts.st_mode)}, not a file")
    return facts.st_size


def file_kind(path: Path) -> str:
    """What the regular file at `path` holds, as words to follow `is`. Raises ModelError when it cannot be read."""
    size = file_size(path)
    if size == 0:
        return "an empty file"
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise unreadable(path, error) from None
    return _kind(head, size)


def unreadable(path: Path, error: OSError) -> ModelError:
    """The error for a file or directory that the system does not let us read."""
    if error.errno is not None:
        return ModelError(f"{paths.display(path)} cannot be read: {os.strerror(error.errno)}")
    return ModelError(f"{paths.display(path)} cannot be read: {error}")


def _kind(head: bytes, size: int) -> str:
    # Safetensors first: its header length may start with the bytes of a pickle or of a web page.
    if head[_LENGTH : _LENGTH + 1] == b"{" and int.from_bytes(head[:_LENGTH], "little") <= _LONGEST_HEADER:
        return SAFETENSORS
    for start, kind in _STARTS.items():
        if head.startswith(start):
            return kind
    if size <= _LENGTH:
        return f"a file of {size} bytes"
    first = head.lstrip()[:1]
    if first == b"<":
        return "a web page, not a model (the download saved an error or log-in page)"
    return "JSON text" if first in {b"{", b"["} and _text(head) else "something else (neither safetensors nor GGUF)"


def _text(head: bytes) -> bool:
    return json.detect_encoding(head).startswith("utf-8") and b"\0" not in head


def _special(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a directory",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "a special file")
