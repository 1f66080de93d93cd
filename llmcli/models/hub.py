"""The model hub, through huggingface_hub: its cache, token, endpoint, proxy and offline settings apply as they are."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmcli.errors import ModelError
from llmcli.models import hub_cache
from llmcli.models.hub_stream import Blob, stream_blob
from llmcli.models.source import HubSource

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_FILE = re.compile(r"(?![A-Za-z]:)(?!(?:.*/)?\.{0,2}(?:/|$))[^\\\x00-\x1f]+")
"""A relative path: no drive, no backslash or control character, no part that is empty, `.` or `..`."""

_SECONDS = 15.0
"""How long the hub may take to begin an answer."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository as it stands on the hub. commit: of the revision. sizes: of every file, in bytes; 0: not told.

    digests: sha256 of each file that is kept in the hub's storage for large files.
    """

    source: HubSource
    commit: str
    sizes: dict[str, int]
    digests: dict[str, str]

    @property
    def snapshot(self) -> Path:
        """The folder of this commit in the hub's cache, which may not be there or not be whole."""
        return hub_cache.snapshot_dir(self.source.repo, self.commit)

    def absent(self, names: Iterable[str]) -> list[str]:
        """The files among `names` that are not in the cache yet."""
        return [name for name in names if not (self.snapshot / name).is_file()]


def look_up(source: HubSource) -> Repository:
    """Ask the hub for the files of a repository. Raises huggingface_hub's errors (`hub_errors.translated`).

    Raises ModelError for a commit, a sha256 or a file name that could lead out of the cache: paths are made of them.
    """
    from huggingface_hub import HfApi

    info = HfApi().model_info(source.repo, revision=source.revision, files_metadata=True, timeout=_SECONDS)
    files = info.siblings or ()
    repository = Repository(
        source,
        commit=info.sha or "",
        sizes={file.rfilename: file.size or 0 for file in files},
        digests={file.rfilename: file.lfs.sha256 for file in files if file.lfs},
    )
    _refuse_unsafe(repository)
    return repository


def _refuse_unsafe(repository: Repository) -> None:
    told = [("the commit", repository.commit, _COMMIT.fullmatch(repository.commit))]
    told += [("a sha256", digest, _SHA256.fullmatch(digest or "")) for digest in repository.digests.values()]
    told += [("a file", name, _FILE.fullmatch(name)) for name in repository.sizes]
    for what, value, right in told:
        if not right:
            raise ModelError(
                f"{repository.source.repo}: the hub names {what} {ascii(value)[:100]}, which cannot be one",
                "Nothing was fetched. Check HF_ENDPOINT, or try another revision (ORG/NAME@REVISION).",
            )


def offline() -> bool:
    """Whether the user has switched the hub off (HF_HUB_OFFLINE)."""
    from huggingface_hub import constants

    return constants.HF_HUB_OFFLINE


def fetch(
    repository: Repository, names: Iterable[str], report: Callable[[int], None], waiting: Callable[[], None]
) -> None:
    """Fetch files into the cache, those that are not there yet: one after the other.

    A large file goes on where an earlier try was broken off. report: takes bytes that have come in, negative numbers
    when they are dropped. waiting: called when another process is fetching the same file.
    """
    for name in repository.absent(names):
        if blob := _blob(repository, name):
            stream_blob(blob, report, waiting)
            _into_cache(repository, name)
        else:
            _into_cache(repository, name)
            report(repository.sizes[name])


def bytes_there(repository: Repository, names: Iterable[str]) -> int:
    """Bytes of these files that have come in already, in whole or in part."""
    blobs = [_blob(repository, name) for name in names]
    return sum(blob.arrived for blob in blobs if blob)


def _blob(repository: Repository, name: str) -> Blob | None:
    """A file in the hub's storage for large files, whose content in the cache is named for its sha256.

    None for other files, and where the cache cannot hold links: there a blob would be kept beside its copy.
    """
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import are_symlinks_supported

    repo, digest, size = repository.source.repo, repository.digests.get(name), repository.sizes[name]
    if digest is None or not size or not are_symlinks_supported(hub_cache.cache_dir()):
        return None
    return Blob(hf_hub_url(repo, name, revision=repository.commit), digest, size, repo)


def _into_cache(repository: Repository, name: str) -> None:
    """Let huggingface_hub fetch a file, or link it where its content is there already; it draws no bar of its own."""
    from huggingface_hub import hf_hub_download
    from tqdm import tqdm  # type: ignore[import-untyped]

    class Silent(tqdm):  # type: ignore[misc]
        """A bar that is never drawn, whatever the environment says."""

        def __init__(self, *arguments: Any, name: str | None = None, **more: Any) -> None:  # noqa: ARG002 - the hub's
            super().__init__(*arguments, **{**more, "disable": True})

    hf_hub_download(
        repository.source.repo,
        name,
        revision=repository.commit,
        cache_dir=hub_cache.cache_dir(),
        tqdm_class=Silent,
    )
