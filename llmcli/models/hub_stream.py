"""A large file of the hub into its blob of the cache, going on where an earlier try, also of another process, ended.

huggingface_hub (2.x) starts a file anew when its process ended in the middle. The part that has come in lies at
blobs/SHA256.incomplete, where its tools (`hf cache`) look for left-overs, under the lock that its own downloads take.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from llmcli.errors import ModelError
from llmcli.models import hub_cache

_TRIES = 6
"""How often in a row a fetch may bring nothing."""
_CHUNK = 2**20

Report = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Blob:
    """The content of a large file of `repo`: its address, its sha256, which names it in the cache, and its size."""

    url: str
    sha256: str
    size: int
    repo: str

    @property
    def final(self) -> Path:
        """Where the whole content is."""
        return hub_cache.repository_dir(self.repo) / "blobs" / self.sha256

    @property
    def partial(self) -> Path:
        """Where it is while it comes in."""
        return self.final.with_name(f"{self.sha256}.incomplete")

    @property
    def arrived(self) -> int:
        """Bytes that are there."""
        return _size(self.final) or _size(self.partial)


def stream_blob(blob: Blob, report: Report, waiting: Callable[[], None]) -> None:
    """Bring the content into the cache's blobs; nothing is done when it is there.

    report: takes bytes that have come in, those of earlier tries too, and negative numbers when they are dropped.
    waiting: called once when another process holds the file. Raises the HTTP client's and the system's errors,
    ModelError for content that is not what it should be.
    """
    import filelock

    path = hub_cache.cache_dir() / ".locks" / hub_cache.repository_dir(blob.repo).name / f"{blob.sha256}.lock"
    for folder in (blob.final.parent, path.parent):
        folder.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(path, mode=0o664)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        waiting()
        lock.acquire(poll_interval=0.1)
    try:
        if blob.final.exists():
            report(_size(blob.final))
        else:
            _complete(blob, report)
    finally:
        lock.release()


def _complete(blob: Blob, report: Report) -> None:
    """Fetch what is missing; what an earlier process left is held against the sha256, and dropped when it is wrong."""
    left = _size(blob.partial)
    report(left)
    if left > blob.size:
        _drop(blob, report)
    _fetch(blob, report)
    if left and not _right(blob):
        _drop(blob, report)
        _fetch(blob, report)
    if (found := _size(blob.partial)) != blob.size:
        _drop(blob, report)
        raise ModelError(
            f"{blob.url} came in with {found:,} bytes instead of {blob.size:,}", "Nothing was kept of it; try again."
        )
    blob.partial.replace(blob.final)


def _fetch(blob: Blob, report: Report) -> None:
    """Go on until the content is whole; a broken connection is tried again as long as that brings something."""
    from huggingface_hub import errors

    fruitless = 0
    while (before := _size(blob.partial)) != blob.size:
        try:
            with blob.partial.open("ab") as file:
                _stream(blob, file, report)
        except errors.HTTPError as error:  # type: ignore[attr-defined]  # the HTTP client's own base class
            fruitless = 0 if _size(blob.partial) > before else fruitless + 1
            if fruitless >= _TRIES or not _passing(error):
                raise
            time.sleep(min(8.0, 0.5 * 2**fruitless))
        else:
            return


def _stream(blob: Blob, file: BinaryIO, report: Report) -> None:
    from huggingface_hub import constants
    from huggingface_hub.utils import (  # type: ignore[attr-defined]  # they are exported when they are asked for
        build_hf_headers,
        get_session,
        hf_raise_for_status,
    )

    start = file.tell()
    headers = {**build_hf_headers(), "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    seconds = constants.HF_HUB_DOWNLOAD_TIMEOUT
    with get_session().stream("GET", blob.url, headers=headers, timeout=seconds, follow_redirects=True) as response:
        hf_raise_for_status(response)
        if start and response.status_code != 206:  # the whole file comes, whatever was asked for
            file.truncate(0)
            report(-start)
        for chunk in response.iter_bytes():
            file.write(chunk)
            report(len(chunk))


def _passing(error: Any) -> bool:
    """Whether trying again may help: no answer at all, or one that says so."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status is None or status in {408, 429, 500, 502, 503, 504}


def _right(blob: Blob) -> bool:
    digest = hashlib.sha256()
    with blob.partial.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest() == blob.sha256


def _drop(blob: Blob, report: Report) -> None:
    report(-_size(blob.partial))
    blob.partial.unlink(missing_ok=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
