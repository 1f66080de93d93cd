"""The registry: the models.toml shipped with llmcli, overlaid by the user's own."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import llmcli
from llmcli import paths
from llmcli.errors import ConfigError, ModelError
from llmcli.models.entry import Entry, decode_entry
from llmcli.models.place import Place, nearest
from llmcli.models.registry_file import RegistryFile, normal, read_registry_file

FILENAME = "models.toml"


@dataclass(frozen=True, slots=True)
class Registry:
    """Aliases and their entries; an entry is decoded when it is asked for, so that a broken one hurts no other.

    sources: the files read, later ones win. user_file: the user's own file, or where it would be.
    """

    sources: tuple[RegistryFile, ...]
    user_file: Path
    _homes: dict[str, RegistryFile] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        homes = {alias: source for source in self.sources for alias in source.tables}
        object.__setattr__(self, "_homes", homes)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that were read: the shipped one, then the user's if there is one."""
        return tuple(source.path for source in self.sources)

    @property
    def default(self) -> str:
        """The alias of the model that is used when none is named. Raises ConfigError when it is unset or unknown."""
        source = next((source for source in reversed(self.sources) if source.default), None)
        if source is None or source.default is None:
            raise ConfigError(f"{paths.display(self.user_file)} names no default model", 'Add: default = "ALIAS".')
        if source.default in self._homes:
            return source.default
        near = nearest(source.default, self._homes)
        problem = f"= {source.default!r} names no model" + (f"; did you mean {near}?" if near else "")
        raise Place(source.path, "", "default").refuse(problem, "`llmcli models list` shows the names.")

    def names(self) -> tuple[str, ...]:
        """Every alias, in the files' order."""
        return tuple(self._homes)

    def __contains__(self, alias: str) -> bool:
        return normal(alias) in self._homes

    def home(self, alias: str) -> Path:
        """The file that defines `alias`. Raises KeyError when there is none."""
        return self._homes[normal(alias)].path

    def without(self, file: Path) -> "Registry":
        """The registry as it would be without `file`."""
        return Registry(tuple(source for source in self.sources if source.path != file), self.user_file)

    def entry(self, alias: str) -> Entry:
        """The model named `alias`. Raises ConfigError when its table is not valid, KeyError when there is none."""
        alias = normal(alias)
        source = self._homes[alias]
        if refusal := source.refuse_name(alias):
            raise refusal
        return decode_entry(alias, source.tables[alias], source.path)


def load_registry(user_file: Path | None = None) -> Registry:
    """Read the shipped registry and the user's own: `user_file`, else LLMCLI_MODELS, else the config directory's.

    Raises ConfigError when a file cannot be used; only the file in the config directory may be absent.
    """
    chosen = user_file or _from_environment()
    own = own_file(user_file)
    sources = [read_registry_file(shipped_file())]
    if chosen or _there(own):
        sources.append(read_registry_file(own))
    return Registry(tuple(sources), own)


def shipped_registry(user_file: Path) -> Registry:
    """The registry that comes with llmcli alone, for a user whose own file is yet to be made."""
    return Registry((read_registry_file(shipped_file()),), user_file)


def own_file(chosen: Path | None = None) -> Path:
    """Where the user's own entries are, or would be."""
    return chosen or _from_environment() or paths.config_dir() / FILENAME


def shipped_file() -> Path:
    """The registry that comes with llmcli: in the package, or beside pyproject.toml in a checkout."""
    package = Path(llmcli.__file__).parent
    inside, beside = package / FILENAME, package.parent / FILENAME
    if inside.is_file():
        return inside
    if beside.is_file() and (package.parent / "pyproject.toml").is_file():
        return beside
    raise ModelError(f"{inside} is missing from this installation", "Install llmcli again.")


def _there(path: Path) -> bool:
    """Whether something is at `path`, or may be there: what cannot be looked at is reported when it is read."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True


def _from_environment() -> Path | None:
    value = os.environ.get("LLMCLI_MODELS")
    return Path(os.path.expanduser(value)) if value else None  # noqa: PTH111 - Path.expanduser raises for ~nobody
