"""The hub's cache on this disk, read without the network and without the hub's library.

CACHE/models--ORG--NAME/          CACHE: HF_HUB_CACHE, else HF_HOME/hub (huggingface_hub, guide "Understand caching")
    refs/REVISION                 the commit that a branch or tag stood at when it was last fetched
    snapshots/COMMIT/FILE         a link to the file's content in blobs/, once that has come in whole
    blobs/ETAG                    ETAG.incomplete while it comes in
"""

import json
import os
import uuid
from pathlib import Path

from llmcli.models import magic
from llmcli.models.integrity import has_tokenizer
from llmcli.models.safetensors import INDEX, SINGLE
from llmcli.models.source import HubSource


def cache_dir() -> Path:
    """Where huggingface_hub keeps what it fetches, told by the same environment variables in the same order."""
    chosen = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    if not chosen:
        above = os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")  # noqa: PTH118 - expanded as one text
        chosen = os.path.join(os.environ.get("HF_HOME") or os.path.join(above, "huggingface"), "hub")  # noqa: PTH118
    return Path(os.path.expandvars(os.path.expanduser(chosen)))  # noqa: PTH111 - Path.expanduser raises for ~nobody


def repository_dir(repo: str) -> Path:
    """The folder of a repository, which may not be there."""
    return cache_dir() / ("models--" + repo.replace("/", "--"))


def commit_of(source: HubSource) -> str | None:
    """The commit that the revision stood at when it was last fetched; None when it never was."""
    if source.pinned:
        return source.revision
    try:
        return (repository_dir(source.repo) / "refs" / source.reference).read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def snapshot_dir(repo: str, commit: str) -> Path:
    """The folder of a commit, which may not be there or not be whole."""
    return repository_dir(repo) / "snapshots" / commit


def find_snapshot(source: HubSource) -> Path | None:
    """The folder of the revision's commit, when every file that loading needs is in it; the network is not asked.

    Whole means: config.json, a tokenizer, and model.safetensors or every shard that the index names. A file appears
    in the folder only once all of it has come in.
    """
    commit = commit_of(source)
    folder = snapshot_dir(source.repo, commit) if commit and Path(commit).name == commit else None
    return folder if folder and is_whole(folder) else None


def is_whole(folder: Path) -> bool:
    """Whether a snapshot holds config, tokenizer and weights. Raises ModelError when it may not be read."""
    try:
        if not (folder / "config.json").is_file() or not has_tokenizer(folder):
            return False
        return (folder / SINGLE).is_file() or _all_shards(folder)
    except OSError as error:
        raise magic.unreadable(folder, error) from None


def _all_shards(folder: Path) -> bool:
    if not (folder / INDEX).is_file():
        return False
    try:
        files = set(json.loads((folder / INDEX).read_bytes())["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    return bool(files) and all(isinstance(name, str) and (folder / name).is_file() for name in files)


def write_reference(source: HubSource, commit: str) -> None:
    """Note that the revision stands at `commit`, as huggingface_hub does; only once the commit's files are there."""
    if source.revision == commit:
        return
    path = repository_dir(source.repo) / "refs" / source.reference
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    fresh.write_text(commit, encoding="utf-8")
    fresh.replace(path)
