"""Delete what llmcli fetched or converted for a model; never a user's own directory or GGUF file."""

import contextlib
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from llmcli import paths
from llmcli.errors import LlmcliError
from llmcli.models import hub_cache, store
from llmcli.models.locate import Located
from llmcli.models.source import HubSource


@dataclass(frozen=True, slots=True)
class Removed:
    """A place that was emptied, and the bytes that it held."""

    path: Path
    size: int


def remove_files(located: Located) -> Removed | None:
    """Delete a model's slot of the cache, or its commit in the hub's cache; None when there is nothing of it.

    Raises LlmcliError when another process is filling the place, or when it cannot be deleted. Nothing is gone then.
    """
    if located.hub is not None:
        return _remove_hub(located.hub)
    if located.kind == "directory" or (located.kind == "gguf" and located.original is None):
        return None
    folder = store.slot(located).directory
    if not folder.is_dir():
        return None
    with _held((folder / "lock",), located.name), _deleting(folder):
        size = _size(folder)
        for path in folder.iterdir():
            if path.name != "lock":  # held until the rest is gone
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    shutil.rmtree(folder, ignore_errors=True)
    return Removed(folder, size)


def _remove_hub(source: HubSource) -> Removed | None:
    folder = hub_cache.repository_dir(source.repo)
    if not folder.is_dir():
        return None
    locks = (hub_cache.cache_dir() / ".locks" / folder.name).glob("*.lock")
    with _held(locks, source.repo), _deleting(folder):
        before = _size(folder)
        for partial in (folder / "blobs").glob("*.incomplete"):
            partial.unlink()
        _delete_commits(folder, _commits(source, folder))
        size = before - (_size(folder) if folder.is_dir() else 0)
    return Removed(folder, size) if size or not folder.is_dir() else None


def _commits(source: HubSource, folder: Path) -> set[str]:
    """The commit that the revision stands at, and what a broken-off fetch left of others."""
    snapshots = [path for path in (folder / "snapshots").glob("*") if path.is_dir()]
    commits = {path.name for path in snapshots if not hub_cache.is_whole(path)}
    if (commit := hub_cache.commit_of(source)) and (folder / "snapshots" / commit).is_dir():
        commits.add(commit)
    return commits


def _delete_commits(folder: Path, commits: set[str]) -> None:
    """Delete commits and what no other commit needs, as huggingface_hub does: all of the repository with its last."""
    if not any((folder / "snapshots").glob("*")):
        shutil.rmtree(folder)
        return
    if not commits:
        return
    from huggingface_hub import scan_cache_dir

    scan_cache_dir(folder.parent).delete_revisions(*commits).execute()


@contextlib.contextmanager
def _held(locks: Iterable[Path], name: str) -> Iterator[None]:
    """Hold these locks. Raises LlmcliError when another process holds one."""
    import filelock

    with contextlib.ExitStack() as stack:
        for path in locks:
            try:
                stack.enter_context(filelock.FileLock(path, timeout=0))
            except filelock.Timeout:
                raise LlmcliError(
                    f"{name} is being fetched or converted by another process",
                    "Wait for it, or end it, then try again.",
                ) from None
        yield


@contextlib.contextmanager
def _deleting(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LlmcliError(f"{paths.display(folder)} cannot be deleted: {error.strerror or error}") from error


def _size(folder: Path) -> int:
    """Bytes of the files below a directory; a link counts nothing."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
