"""`llmcli.json` in a converted model's directory: that it is complete, and which files of which sizes it holds."""

from pathlib import Path

import msgspec

FILENAME = "llmcli.json"
FORMAT = 1
"""The format of converted directories that this version writes and reads."""


class Manifest(msgspec.Struct, frozen=True):
    """format: of the directory. files: name to size in bytes of every other file."""

    format: int
    files: dict[str, int]


def read(directory: Path) -> Manifest | None:
    """The manifest of a converted directory, or None where there is no valid one."""
    try:
        return msgspec.json.decode((directory / FILENAME).read_bytes(), type=Manifest)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def read_format(directory: Path) -> int | None:
    """The format of a converted directory, or None where none is complete."""
    found = read(directory)
    return found.format if found else None


def write(directory: Path) -> None:
    """Declare a converted directory complete."""
    path = directory / FILENAME
    files = {
        file.relative_to(directory).as_posix(): file.stat().st_size
        for file in sorted(directory.rglob("*"))
        if file.is_file() and file != path
    }
    content = msgspec.json.encode({"format": FORMAT, "files": files})
    path.write_bytes(msgspec.json.format(content, indent=2) + b"\n")


def damage(directory: Path) -> tuple[str, ...]:
    """What differs between a converted directory and its manifest, one line each."""
    found = read(directory)
    if found is None:
        return (f"{FILENAME} is missing or damaged",)
    problems = []
    for name, size in found.files.items():
        path = directory / name
        if not path.is_file():
            problems.append(f"{name} is missing")
        elif (real := path.stat().st_size) != size:
            problems.append(f"{name} has {real:,} bytes instead of {size:,}")
    return tuple(problems)
