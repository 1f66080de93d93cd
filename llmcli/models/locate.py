"""A model argument, found: an alias, a directory, a GGUF file, or an id of the model hub."""

import errno
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from llmcli import paths
from llmcli.errors import ModelError, ModelNotFound, UsageError
from llmcli.models import hub_cache, magic, store
from llmcli.models.entry import Entry
from llmcli.models.place import nearest
from llmcli.models.registry import Registry
from llmcli.models.source import HUB, HubSource, WheelSource, hub_source

Kind = Literal["directory", "gguf", "hub", "wheel"]

_FILES = (".gguf", ".json", ".safetensors")  # ends of a path to a file, which is no hub id when nothing is there


@dataclass(frozen=True, slots=True)
class Located:
    """A model and where it comes from.

    source: as shown to a person. original: the directory or GGUF file, None while it is not on this disk (a wheel's
    file lies in the cache, a hub model's directory in the hub's cache). entry: the registry's, None for a path or a hub
    id. hub: the repository of a hub model. near: the alias most like a hub id.
    """

    name: str
    kind: Kind
    source: str
    original: Path | None
    entry: Entry | None
    hub: HubSource | None = None
    near: str | None = None

    @property
    def argument(self) -> str:
        """What a person writes to name this model."""
        return self.name if self.entry else str(self.hub).removeprefix(HUB) if self.hub else self.source

    @property
    def revision(self) -> str | None:
        """The commit of a hub model that is on this disk."""
        return self.commit(self.original)

    def commit(self, directory: Path | None) -> str | None:
        """The commit that a hub model's `directory` holds; None for other kinds."""
        return directory.name if self.hub and directory else None

    def require(self) -> Path:
        """The directory or file on disk. Raises ModelNotFound when it is not there, ModelError for another size."""
        if self.original is None and self.kind in {"hub", "wheel"}:
            raise ModelNotFound(f"{self.name} is not on this disk", f"Fetch it: llmcli models pull {self.argument}")
        if self.original is None:
            where = f"; the source stands in {self.entry.place}" if self.entry else ""
            raise ModelNotFound(f"{self.source} is not there", f"Check the path{where}.")
        size = self.entry.size if self.entry else None
        if size and self.kind in {"gguf", "wheel"} and (real := magic.file_size(self.original)) != size:
            raise ModelError(
                f"{self.source} has {real:,} bytes; the registry says {size:,}",
                f"Incomplete download or copy, or another file? The size stands in {self.entry and self.entry.place}.",
            )
        return self.original


def locate(argument: str | None, registry: Registry) -> Located:
    """Find a model: an alias, else a path that exists, else a hub id; None is the registry's default.

    Raises ModelNotFound (with the nearest alias), ModelError for a file that is no model, ConfigError for an entry
    that is not valid, UsageError for an empty argument.
    """
    if argument is None:
        return _from_entry(registry.entry(registry.default))
    if not argument.strip() or "\0" in argument:
        raise UsageError("the model argument is empty or holds a NUL byte", _hint())
    if argument in registry:
        return _from_entry(registry.entry(argument))
    path = Path(argument)
    kind = _kind_at(path)
    if kind is None:
        if not argument.lower().endswith(_FILES) and (source := hub_source(argument)):
            return _from_hub(source, registry)
        raise _not_found(argument, registry)
    resolved = Path(path.absolute()) if path.name in {"", ".", ".."} else path
    name = path.resolve().name if kind == "directory" else path.stem
    return Located(name or str(resolved), kind, str(path), path, None)


def _from_entry(entry: Entry) -> Located:
    source = entry.parsed_source()
    if isinstance(source, WheelSource):
        pulled = store.wheel_slot(entry, source).original
        return Located(entry.name, "wheel", entry.source, pulled if _pulled(pulled, entry) else None, entry)
    if isinstance(source, HubSource):
        return Located(entry.name, "hub", str(source), hub_cache.find_snapshot(source), entry, source)
    kind = _kind_at(source.path)
    shown = paths.display(source.path)
    if kind is None:
        return Located(entry.name, "gguf" if source.path.suffix.lower() == ".gguf" else "directory", shown, None, entry)
    return Located(entry.name, kind, shown, source.path, entry)


def _from_hub(source: HubSource, registry: Registry) -> Located:
    near = nearest(source.repo.rpartition("/")[2], registry.names())
    return Located(source.repo, "hub", str(source), hub_cache.find_snapshot(source), None, source, near)


def _pulled(path: Path, entry: Entry) -> bool:
    try:
        return path.is_file() and entry.size in {None, path.stat().st_size}
    except OSError as error:
        raise magic.unreadable(path, error) from None


def _kind_at(path: Path) -> Literal["directory", "gguf"] | None:
    """What is at `path`; None when nothing is. Raises ModelError for what is no model."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return None
        raise magic.unreadable(path, error) from None
    except ValueError:  # the locale's encoding lacks a character of it
        raise ModelError(f"{str(path)!a} is no path that this system's locale can name") from None
    if stat.S_ISDIR(mode):
        return "directory"
    kind = magic.file_kind(path)
    if kind != magic.GGUF:
        raise _no_model(path, kind)
    return "gguf"


def _no_model(path: Path, kind: str) -> ModelError:
    shown = paths.display(path)
    if path.suffix.lower() == ".gguf":
        return ModelError(f"{shown} is no GGUF file but {kind}", "Incomplete or wrong download? Fetch it again.")
    if kind == magic.SAFETENSORS or path.name in {"config.json", "tokenizer.json"}:
        return ModelError(
            f"{shown} is one file of a model", f"Give its directory: {paths.display(path.absolute().parent)}"
        )
    return ModelError(f"{shown} is {kind}", _hint())


def _not_found(argument: str, registry: Registry) -> ModelNotFound:
    shown = argument if len(argument) <= 100 else f"{argument[:97]}…"
    shown = shown if shown.isprintable() else ascii(shown)[1:-1]
    if argument.startswith((HUB, "hf:", "http://", "https://")):
        return ModelNotFound(f"{shown} is no id of a model", "The hub's ids read ORG/NAME or ORG/NAME@REVISION.")
    if near := nearest(argument, registry.names()):
        return ModelNotFound(f"there is no model {shown!r}", f"Did you mean {near}? {_hint()}")
    return ModelNotFound(f"there is no model {shown!r}", _hint())


def _hint() -> str:
    return "`llmcli models list` shows the aliases; a directory, a .gguf file or a hub id (ORG/NAME) works too."
