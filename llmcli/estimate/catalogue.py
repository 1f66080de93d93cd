"""llmcli's own catalogue: what the configs of well-known models say, so that they are sized without any file.

Every row of catalogue.toml is named for a repository of the hub, or for the sha256 of a file that the registry fetches,
and holds the keys of the model's config.json that its size follows from. `name` is what a person may write for it.
"""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("catalogue.toml")

Row = Mapping[str, Any]


def row_of(key: str | None) -> dict[str, Any] | None:
    """What the config.json of a repository, or of a file with this sha256, says; None for one that is not known."""
    row = _rows().get(key or "")
    return None if row is None else _config(row)


def repository_named(name: str) -> str | None:
    """The repository that a person means by `name`: the name of a row, whatever its case; None for no row's."""
    return _names().get(name.lower())


def spellings() -> Iterator[tuple[str, str]]:
    """Every name with itself, and with its repository."""
    for name, repository in _names().items():
        yield name, name
        yield repository, name


def names() -> tuple[str, ...]:
    """Every name that stands for a model, in order."""
    return tuple(sorted(_names()))


def _config(row: Row) -> dict[str, Any]:
    """A row as config.json would say it: TOML has no null, which is written as an empty text."""
    return {
        key: _config(value) if isinstance(value, dict) else None if value == "" else value
        for key, value in row.items()
        if key != "name"
    }


@cache
def _rows() -> dict[str, Row]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


@cache
def _names() -> dict[str, str]:
    return {row["name"].lower(): key for key, row in _rows().items() if "name" in row}
