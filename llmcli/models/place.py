"""A place in a registry file, for messages that a person can act on."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from llmcli import paths
from llmcli.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Place:
    """`table`: the name between the brackets, or empty for the top level. `key`: empty for the table itself."""

    file: Path
    table: str = ""
    key: str = ""

    def __str__(self) -> str:
        key = self.key if self.key.isprintable() else ascii(self.key)
        where = " ".join(part for part in (f"[{self.table}]" if self.table else "", key) if part)
        return f"{paths.display(self.file)}: {where}" if where else paths.display(self.file)

    def refuse(self, problem: str, hint: str | None = None) -> ConfigError:
        """The error that names this place."""
        return ConfigError(f"{self} {problem}" if self.table or self.key else f"{self}: {problem}", hint)


def model_table(alias: str) -> str:
    """The TOML name of the table of `alias`, quoted where TOML wants quotes."""
    bare = alias.isascii() and alias.replace("-", "").replace("_", "").isalnum()
    return f"models.{alias}" if bare else f'models."{alias if alias.isprintable() else ascii(alias)[1:-1]}"'


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """The choice most like `word`, whatever the case, or that begins with it; None when none is much like it."""
    folded = {choice.casefold(): choice for choice in choices}
    begun = [choice for choice in folded if len(word) > 2 and choice.startswith(word.casefold())]
    found = difflib.get_close_matches(word.casefold(), folded, n=1) or begun
    return folded[found[0]] if found else None


def refuse_unknown(place: Place, known: Iterable[str]) -> ConfigError:
    """The error for a key that does not exist, with the nearest one that does."""
    known = tuple(known)
    near = nearest(place.key, known)
    problem = "is no known key" + (f"; the nearest is {near}" if near else "")
    return place.refuse(problem, f"Allowed here: {', '.join(known)}.")
