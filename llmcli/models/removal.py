"""Delete what llmcli fetched or converted for a model; never a user's own directory or GGUF file."""

import contextlib
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from llmcli import paths
from llmcli.errors import LlmcliError
from llmcli.models import hub_cache, hub_files, store
from llmcli.models.locate import Located
from llmcli.models.safetensors import INDEX
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
    partials = list((folder / "blobs").glob("*.incomplete"))
    with _held(_locks(folder, partials), source.repo), _deleting(folder):
        before = _size(folder)
        commits = _commits(source, folder, broken_off=bool(partials))
        for partial in partials:
            partial.unlink(missing_ok=True)
        _delete_commits(folder, commits)
        size = before - (_size(folder) if folder.is_dir() else 0)
    return Removed(folder, size) if size or not folder.is_dir() else None


def _locks(folder: Path, partials: Iterable[Path]) -> set[Path]:
    """Every lock of the repository, and those of its partial blobs whether they are there or not.

    A partial blob is SHA256.incomplete, or SHA256.RANDOM.incomplete where huggingface_hub makes it.
    """
    locks = hub_cache.cache_dir() / ".locks" / folder.name
    return {*locks.glob("*.lock"), *(locks / f"{path.name.partition('.')[0]}.lock" for path in partials)}


def _commits(source: HubSource, folder: Path, *, broken_off: bool) -> set[str]:
    """The commit that the revision stands at and, after a fetch that was broken off, its first files of others.

    Other programs keep commits in ways of their own (GGUF or ONNX files, a tokenizer alone): what a branch or tag
    names, or what holds any file but those that llmcli fetches before the weights, is not llmcli's to delete.
    """
    snapshots = {path.name: path for path in (folder / "snapshots").glob("*") if path.is_dir()}
    commits = {commit for commit in (hub_cache.commit_of(source),) if commit in snapshots}
    if broken_off:
        named = _named(folder)
        commits |= {commit for commit, path in snapshots.items() if commit not in named and _only_begun(path)}
    return commits


def _named(folder: Path) -> set[str]:
    """The commits that branches and tags stand at."""
    return {path.read_text(encoding="utf-8").strip() for path in (folder / "refs").rglob("*") if path.is_file()}


def _only_begun(snapshot: Path) -> bool:
    """Whether a commit holds nothing but what llmcli fetches before the weights."""
    names = {path.relative_to(snapshot).as_posix() for path in snapshot.rglob("*") if not path.is_dir()}
    return hub_files.CONFIG in names and names <= {hub_files.CONFIG, INDEX, *hub_files.companions(names)}


def _delete_commits(folder: Path, commits: set[str]) -> None:
    """Delete commits and what no other commit needs, as huggingface_hub does: all of the repository with its last."""
    if not any((folder / "snapshots").glob("*")):
        shutil.rmtree(folder)
        return
    if not commits:
        return
    from huggingface_hub import scan_cache_dir

    scan_cache_dir(folder.parent).delete_revisions(*commits).execute()
    if left := [commit for commit in commits if (folder / "snapshots" / commit).exists()]:
        raise LlmcliError(
            f"{paths.display(folder / 'snapshots' / left[0])} is not laid out as huggingface_hub does it",
            "Other commits may share its content: delete the folder yourself when none is needed.",
        )


@contextlib.contextmanager
def _held(locks: Iterable[Path], name: str) -> Iterator[None]:
    """Hold these locks. Raises LlmcliError when another process holds one."""
    import filelock

    with contextlib.ExitStack() as stack:
        for path in locks:
            path.parent.mkdir(parents=True, exist_ok=True)
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
