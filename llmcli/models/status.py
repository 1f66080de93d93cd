"""How a model of the registry stands on this machine; nothing is read but names and sizes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from llmcli.errors import ModelError, UsageError
from llmcli.models import magic, manifest, store
from llmcli.models.entry import Entry
from llmcli.models.locate import Located, locate
from llmcli.models.registry import Registry

State = Literal["invalid", "absent", "on disk", "ready"]


@dataclass(frozen=True, slots=True)
class Status:
    """problem: why the entry cannot be used. loaded: the directory that is loaded, None until it exists.

    bytes_on_disk: of the original and of the converted model.
    """

    name: str
    entry: Entry | None = None
    located: Located | None = None
    loaded: Path | None = None
    bytes_on_disk: int = 0
    problem: str | None = None

    @property
    def state(self) -> State:
        """`ready` loads at once; `on disk` has to be converted first; `absent` has to be fetched."""
        if self.problem:
            return "invalid"
        if self.loaded:
            return "ready"
        return "on disk" if self.located and self.located.original else "absent"


def registry_status(registry: Registry, alias: str) -> Status:
    """The status of an alias; what is wrong with it becomes its `problem`."""
    entry = None
    try:
        entry = registry.entry(alias)
        located = locate(alias, registry)
        loaded = loaded_directory(located)
        return Status(alias, entry, located, loaded, _bytes(located.original) + _bytes(loaded, located.original))
    except (UsageError, ModelError) as error:
        return Status(alias, entry, problem=error.message)


def loaded_directory(located: Located) -> Path | None:
    """The directory that is loaded for a model, or None until it has been fetched or converted."""
    if located.kind in {"directory", "hub"}:
        return located.original
    if located.kind == "gguf" and located.original is None:
        return None
    slot = store.slot(located)
    return slot.converted if slot.ready else None


def _bytes(path: Path | None, counted: Path | None = None) -> int:
    if path is None or path == counted:
        return 0
    try:
        if path.is_file():
            return path.stat().st_size
        if known := manifest.read(path):
            return sum(known.files.values())
        return sum(file.stat().st_size for file in path.iterdir() if file.is_file())
    except OSError as error:
        raise magic.unreadable(path, error) from None
