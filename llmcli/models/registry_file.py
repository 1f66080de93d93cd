"""One models.toml as it is read from disk: its default and its tables, not yet decoded."""

import re
import tomllib
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from llmcli import paths
from llmcli.errors import ConfigError
from llmcli.models.place import Place, model_table, refuse_unknown

_ALIAS = re.compile(r"[^\W_][\w.-]*")
_TOP = ("default", "models")


@dataclass(frozen=True, slots=True)
class RegistryFile:
    """`tables`: alias to table, in the file's order. `duplicates`: aliases that differ from another only in case."""

    path: Path
    default: str | None
    tables: dict[str, object]
    duplicates: dict[str, str]

    def refuse_name(self, alias: str) -> ConfigError | None:
        """Why `alias`, a name in this file, cannot be used; None when it can."""
        place = Place(self.path, model_table(alias))
        if not _ALIAS.fullmatch(alias):
            return place.refuse("is no usable name: letters, digits, '.', '-' and '_', a letter or digit first")
        if other := self.duplicates.get(alias):
            return place.refuse(f"and [{model_table(other)}] are the same name twice; rename or remove one of them")
        return None


def read_registry_file(path: Path) -> RegistryFile:
    """Read a models.toml; a byte-order mark and CRLF line ends are fine.

    Raises ConfigError for a file that cannot be read, is no TOML, or has something unknown at its top level.
    """
    document = _parse(path)
    for key, value in document.items():
        if key not in _TOP:
            raise _unknown_top(Place(path, "", key), value)
    default, models = document.get("default"), document.get("models", {})
    if default is not None and not (isinstance(default, str) and default):
        raise Place(path, "", "default").refuse(f"= {default!r}: it must be the name of a model, in quotes")
    if not isinstance(models, dict):
        raise Place(path, "", "models").refuse("must hold tables: [models.ALIAS]")
    tables = {normal(alias): table for alias, table in models.items()}
    return RegistryFile(path, normal(default) if default else None, tables, _duplicates(models))


def normal(alias: str) -> str:
    """An alias in the form in which aliases are compared: composed and decomposed Hangul are the same name."""
    return unicodedata.normalize("NFC", alias)


def _parse(path: Path) -> dict[str, object]:
    shown = paths.display(path)
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"{shown}: there is no such file", "Check --registry or LLMCLI_MODELS.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{shown}: byte {error.start} is no UTF-8", "Save the file as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{shown}: no valid TOML: {_first_line(error)}", _twice(str(error))) from None
    except RecursionError:
        raise ConfigError(f"{shown}: no valid TOML: nested too deeply") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{shown}: cannot be read: {reason}") from None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else "syntax error"


def _twice(message: str) -> str | None:
    told = ("Cannot declare", "Cannot overwrite", "Cannot mutate")
    return "Each table and each key may stand there only once." if message.startswith(told) else None


def _unknown_top(place: Place, value: object) -> ConfigError:
    if isinstance(value, dict):
        table = Place(place.file, place.key)
        return table.refuse("is no known table; did you mean [models.ALIAS]?", "Allowed: default = …, [models.ALIAS].")
    return refuse_unknown(place, _TOP)


def _duplicates(aliases: dict[str, object]) -> dict[str, str]:
    seen: dict[str, str] = {}
    twice: dict[str, str] = {}
    for alias in aliases:
        first = seen.setdefault(normal(alias).casefold(), alias)
        if first != alias:
            twice[normal(alias)] = first
            twice.setdefault(normal(first), alias)
    return twice
