"""The cache of pulled and converted models: one slot per model, filled by one process at a time, never half.

CACHE/models/STEM-KEY/            KEY: 12 hexadecimal digits
    lock                          held by the process that fills the slot
    FILE.gguf                     what a wheel: source was pulled as
    safetensors/                  the converted model; llmcli.json, written last, says that it is complete
    *.partial                     being made; left behind only by a killed process, and removed by the next
"""

import contextlib
import errno
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmcli import paths
from llmcli.errors import LlmcliError, ModelError, OutOfMemory
from llmcli.models import manifest
from llmcli.models.source import WheelSource

if TYPE_CHECKING:
    from llmcli.models.entry import Entry
    from llmcli.models.locate import Located

CONVERTED_FORMAT = manifest.FORMAT

_HOME_HINT_LOCAL = "Set LLMCLI_HOME to a directory on a local disk."
_HOME_HINT = "Free some space, or set LLMCLI_HOME to a directory on a larger disk."


@dataclass(frozen=True, slots=True)
class Slot:
    """A model's place in the cache. original: the GGUF file; converted: the directory that is loaded."""

    directory: Path
    original: Path

    @property
    def converted(self) -> Path:
        """The directory of safetensors weights, config and tokenizer."""
        return self.directory / "safetensors"

    @property
    def lock(self) -> Path:
        """The file that the process that fills the slot holds locked."""
        return self.directory / "lock"

    @property
    def ready(self) -> bool:
        """Whether the converted directory is complete, undamaged in its sizes, and of this version's format."""
        return manifest.read_format(self.converted) == CONVERTED_FORMAT and not manifest.damage(self.converted)


def slot(located: "Located") -> Slot:
    """The slot of a `wheel` or `gguf` model. Nothing is written.

    A local file's key comes from its path, size and modification time, so that a file that changed is converted anew.
    Raises ModelNotFound when a local file is not there; what is loaded where it is has no slot (ValueError).
    """
    if located.kind in {"directory", "hub"}:
        raise ValueError("a directory is loaded where it is")
    source = located.entry.parsed_source() if located.entry else None
    if located.entry and isinstance(source, WheelSource):
        return wheel_slot(located.entry, source)
    path = located.require().resolve()
    try:
        facts = path.stat()
    except OSError as error:
        raise ModelError(f"{paths.display(path)} cannot be read: {error.strerror}") from None
    key = hashlib.sha256(f"{path}\0{facts.st_size}\0{facts.st_mtime_ns}".encode("utf-8", "surrogateescape"))
    return Slot(_directory(path.stem, key.hexdigest()), path)


def wheel_slot(entry: "Entry", source: WheelSource) -> Slot:
    """The slot of a `wheel:` entry; its key is the file's sha256."""
    directory = _directory(Path(source.filename).stem, entry.sha256 or "")
    return Slot(directory, directory / source.filename)


def _directory(stem: str, key: str) -> Path:
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", stem)[:80]
    return paths.cache_dir() / "models" / f"{plain}-{key[:12]}"


@contextlib.contextmanager
def locked(place: Slot, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the slot's lock; `waiting` is called once when another process holds it.

    What killed processes left half-made in the slot is removed. Raises LlmcliError when the cache cannot be written.
    """
    import filelock

    with writing(place.directory):
        private_directory(place.directory)
        lock = filelock.FileLock(place.lock, mode=0o600)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            if waiting:
                waiting()
            lock.acquire(poll_interval=0.1)
        except NotImplementedError:  # a network file system without locks
            raise LlmcliError(f"{paths.display(place.directory)} cannot be locked", _HOME_HINT_LOCAL) from None
    try:
        _sweep(place.directory)
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def staging(place: Slot, waiting: Callable[[], None] | None = None) -> Iterator[Path | None]:
    """Make the converted directory: yields an empty one to fill, and puts it in place when the block succeeds.

    Yields None when nothing is left to do: the slot is ready, because another process finished it first. When the
    block fails, what it made is removed. A full disk becomes OutOfMemory.
    """
    with locked(place, waiting):
        if place.ready:
            yield None
            return
        fresh = place.directory / "safetensors.partial"
        try:
            with writing(place.directory):
                fresh.mkdir(mode=0o700)
            with _full_disk(place.directory):
                yield fresh
            with writing(place.directory):
                manifest.write(fresh)
                _put_in_place(fresh, place.converted)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def _put_in_place(fresh: Path, final: Path) -> None:
    for file in fresh.rglob("*"):
        if file.is_file():
            sync(file)
    if os.path.lexists(final):  # of an older format, or not complete: nothing worth keeping
        final.rename(final.with_name("old.partial"))
    fresh.replace(final)
    sync(final.parent)
    shutil.rmtree(final.with_name("old.partial"), ignore_errors=True)


def sync(path: Path) -> None:
    """Ask the system to write a file or directory to the disk, where it can."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def private_directory(path: Path) -> None:
    """Make a directory and its missing parents readable by their owner only."""
    if not path.is_dir():
        private_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def _sweep(directory: Path) -> None:
    for leftover in directory.glob("*.partial"):
        if leftover.is_dir() and not leftover.is_symlink():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


@contextlib.contextmanager
def writing(directory: Path, hint: str = "Set LLMCLI_HOME to a directory that you may write to.") -> Iterator[None]:
    """Turn the system's refusal to write into the cache into an error that says what to do."""
    with _full_disk(directory):
        try:
            yield
        except OSError as error:
            if error.errno in _FULL:
                raise
            reason = error.strerror or str(error)
            raise LlmcliError(
                f"{paths.display(directory)} cannot be written: {reason}",
                hint,
            ) from error


_FULL = {errno.ENOSPC, errno.EDQUOT}


@contextlib.contextmanager
def _full_disk(directory: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not _means_full(error):
            raise
        raise OutOfMemory(f"the disk of {paths.display(directory)} is full", _HOME_HINT) from error


def _means_full(error: Any) -> bool:
    # The safetensors library reports the system's error as text only.
    return getattr(error, "errno", None) in _FULL or "No space left on device" in str(error)


def require_space(directory: Path, needed: int, what: str, hint: str = _HOME_HINT) -> None:
    """Raise OutOfMemory, with `hint`, when the disk of `directory` has less than `needed` bytes free."""
    from llmcli.units import bytes_text

    there = directory
    while not there.exists() and there != there.parent:
        there = there.parent
    try:
        free = shutil.disk_usage(there).free
    except OSError:
        return
    if free < needed:
        raise OutOfMemory(
            f"{what} needs {bytes_text(needed)} on the disk of {paths.display(directory)}; {bytes_text(free)} are free",
            hint,
        )
