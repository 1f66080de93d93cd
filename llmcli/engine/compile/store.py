"""Where compiled decode steps lie: in a directory of the user's cache that nobody else may write to."""

import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import filelock
import msgspec
import psutil

from llmcli import paths
from llmcli.engine.compile.recipe import Facts, Recipe
from llmcli.errors import LlmcliError

CODE, CONSTANTS, META = "step.pt2", "constants.safetensors", "meta.json"
CAP_BYTES = 1 << 30
"""All packages together; those that have not been used for longest go first."""

_MAKING = ".making-"
"""How the names of workplaces begin; the number of their process follows."""

_FAILURE_COUNTS = 24 * 3600
"""Seconds for which nothing is compiled that could not be."""

_ABANDONED = 24 * 3600
"""Seconds after which a workplace is left behind, whoever has the number of its process by now."""


class DamagedError(LlmcliError):
    """A package was not as it had been written."""


@dataclass(frozen=True, slots=True)
class Meta:
    """What is known of a package.

    recipe, versions: what it was made for and of. seconds: that it took. sha256: of each file. tensors: the weights
    that the code is to be given, each with dtype and shape. joined: see `Joined` (join.py). reason: why there is no
    code, for a step that cannot be compiled. eager_ms, compiled_ms: what a step took when it was first loaded, None
    until then.
    """

    recipe: Facts
    versions: dict[str, str]
    seconds: float
    tensors: dict[str, str] = field(default_factory=dict)
    joined: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sha256: dict[str, str] = field(default_factory=dict)
    reason: str | None = None
    eager_ms: float | None = None
    compiled_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Package:
    """A package on disk."""

    directory: Path
    meta: Meta

    @property
    def code(self) -> Path:
        """The compiled code."""
        return self.directory / CODE

    @property
    def constants(self) -> Path:
        """Tensors that belong to the code, not to the model."""
        return self.directory / CONSTANTS

    @property
    def bytes(self) -> int:
        """On disk."""
        return sum(path.stat().st_size for path in self.directory.iterdir() if path.is_file())

    def noted(self, eager_ms: float | None, compiled_ms: float | None) -> "Package":
        """The same with the times of a step, None to have them taken again; kept where that is possible."""
        meta = replace(self.meta, eager_ms=eager_ms, compiled_ms=compiled_ms)
        with suppress(OSError):
            _write(self.directory / META, msgspec.json.encode(meta))
        return replace(self, meta=meta)


def root() -> Path:
    """The directory of all packages."""
    return paths.cache_dir() / "compiled"


def place_of(recipe: Recipe) -> Path:
    """The directory of the recipe's package, whether it is there or not."""
    return root() / recipe.model_key / recipe.key


def find(recipe: Recipe) -> Package | None:
    """The package of `recipe`, None where there is none.

    Raises DamagedError for one that was damaged and has been thrown away, LlmcliError when somebody else could have
    written it: its code runs with the user's rights.
    """
    directory = place_of(recipe)
    for path in (root(), directory.parent, directory, *(directory / name for name in (META, CODE, CONSTANTS))):
        _require_private(path)
    if not directory.is_dir():
        return None
    package = _read(directory)
    if package is None or not _whole(package):
        discard(recipe)
        raise DamagedError(
            "a compiled decode step was damaged and has been thrown away; a conversation, `llmcli bench` or "
            "`llmcli models compile` makes it anew"
        )
    if package.meta.reason is not None:
        return _lasting(package, recipe)
    with suppress(OSError):
        os.utime(directory)
    return package


def _lasting(package: Package, recipe: Recipe) -> Package | None:
    """A failure, unless it is old: what was missing then, a compiler or room on the disk, may be there now."""
    if time.time() - package.directory.stat().st_mtime < _FAILURE_COUNTS:
        return package
    discard(recipe)
    return None


def whole(recipe: Recipe) -> Package | None:
    """As `find`, but for a damaged package, which is as good as none once it has been thrown away."""
    try:
        return find(recipe)
    except DamagedError:
        return None


def forget_times(recipe: Recipe) -> None:
    """Have the times of a package's step taken again."""
    if (package := whole(recipe)) is not None:
        package.noted(None, None)


def discard(recipe: Recipe) -> None:
    """Remove the recipe's package, if there is one and it can be removed."""
    shutil.rmtree(place_of(recipe), ignore_errors=True)


def locked(recipe: Recipe) -> filelock.BaseFileLock:
    """Held by the one process that makes the recipe's package; the others wait. Raises OSError, LlmcliError."""
    root().mkdir(mode=0o700, parents=True, exist_ok=True)
    _require_private(root())
    return filelock.FileLock(root() / f".{recipe.key}.lock", poll_interval=0.2)


def workplace() -> Path:
    """A new directory beside the packages, to make one in; only the user may look into it. Raises OSError."""
    for left in root().glob(f"{_MAKING}*"):
        with suppress(OSError):
            if _abandoned(left):
                shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{_MAKING}{os.getpid()}-", dir=root()))


def _abandoned(left: Path) -> bool:
    """Whether the process whose workplace this is has ended without removing it."""
    pid = left.name.removeprefix(_MAKING).partition("-")[0]
    return time.time() - left.stat().st_mtime > _ABANDONED or not (pid.isdecimal() and psutil.pid_exists(int(pid)))


def publish(recipe: Recipe, made: Path, meta: Meta) -> Package:
    """Move the directory `made` to where `find` looks, in one step; what was there before goes. Raises OSError."""
    directory = place_of(recipe)
    directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    meta = replace(meta, sha256={path.name: _sha256(path) for path in made.iterdir()})
    _write(made / META, msgspec.json.encode(meta))
    shutil.rmtree(directory, ignore_errors=True)
    made.rename(directory)
    with suppress(OSError):  # another process removes what is too much as well
        _keep_below_cap(directory)
    return Package(directory, meta)


def packages(model_key: str) -> list[Package]:
    """All packages of a model's shape, the newest first."""
    try:
        directories = sorted((root() / model_key).iterdir(), key=lambda path: -path.stat().st_mtime)
    except OSError:
        return []
    found = [package for directory in directories if (package := _read(directory)) is not None]
    return [_as_it_counts(package) for package in found]


def _as_it_counts(package: Package) -> Package:
    """The package, with the reason why it is not used where somebody else could have written it."""
    directory = package.directory
    try:
        for path in (root(), directory.parent, directory):
            _require_private(path)
    except LlmcliError as error:
        return replace(package, meta=replace(package.meta, reason=error.message))
    return package


def _read(directory: Path) -> Package | None:
    try:
        return Package(directory, msgspec.json.decode((directory / META).read_bytes(), type=Meta))
    except (OSError, msgspec.MsgspecError):
        return None


def _whole(package: Package) -> bool:
    """Whether every file is there, as it was written."""
    if package.meta.reason is None and not {CODE, CONSTANTS} <= package.meta.sha256.keys():
        return False
    try:
        return all(_sha256(package.directory / name) == sum_ for name, sum_ in package.meta.sha256.items())
    except OSError:
        return False


def _require_private(path: Path) -> None:
    if os.name != "posix" or not os.path.lexists(path):
        return
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise LlmcliError(f"{path} is a link: compiled code is taken from its own place only", _remove())
    if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise LlmcliError(
            f"{path} could have been written by somebody else, and holds compiled code: it is not used", _remove()
        )


def _remove() -> str:
    return f"Remove it: rm -r {paths.display(root())}"


def _keep_below_cap(newest: Path) -> None:
    """Remove what has not been used for longest, until all packages together stay below the cap."""
    used = sorted(_all(), key=lambda directory: directory.stat().st_mtime)
    sizes = {directory: sum(path.stat().st_size for path in directory.iterdir()) for directory in used}
    total = sum(sizes.values())
    for directory in used:
        if total <= CAP_BYTES:
            return
        if directory != newest:
            shutil.rmtree(directory, ignore_errors=True)
            total -= sizes[directory]


def _all() -> Iterator[Path]:
    return (directory for directory in root().glob("[!.]*/*") if directory.is_dir())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(path: Path, data: bytes) -> None:
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    partial.write_bytes(data)
    partial.replace(path)
