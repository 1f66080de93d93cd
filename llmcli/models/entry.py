"""One model of the registry: an `[models.ALIAS]` table, decoded strictly."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import msgspec

from llmcli.errors import ConfigError
from llmcli.inference import SamplingOptions
from llmcli.models.place import Place, model_table, nearest, refuse_unknown
from llmcli.models.source import WORDS, Source, WheelSource, parse_source
from llmcli.sampling_rules import RULES, broken_rule

_LARGEST = 2**63 - 1
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")


@dataclass(frozen=True, slots=True)
class Entry:
    """A model with a name. `origin`: the registry file that it was read from.

    size: bytes of the file. sha256: of the file, lower case. context: an upper bound on prompt + answer in tokens.
    """

    name: str
    source: str
    origin: Path
    description: str = ""
    size: int | None = None
    sha256: str | None = None
    license: str | None = None
    languages: tuple[str, ...] = ()
    context: int | None = None
    sampling: SamplingOptions = field(default_factory=SamplingOptions)

    @property
    def place(self) -> Place:
        """The entry's table in its file."""
        return Place(self.origin, model_table(self.name))

    def parsed_source(self) -> Source:
        """The source, read. Raises ConfigError, but never for an entry that `decode_entry` returned."""
        return parse_source(self.source, Place(self.origin, model_table(self.name), "source"))


@dataclass(frozen=True, slots=True)
class _Rule:
    """What a key may hold: its type, the test of its value, and both in words."""

    kind: type
    allowed: Callable[[Any], bool]
    words: str


_KEYS = {
    "source": _Rule(str, bool, WORDS),
    "description": _Rule(str, str.isprintable, "one line of text"),
    "size": _Rule(int, lambda x: 1 <= x <= _LARGEST, "a whole number of bytes from 1"),
    "sha256": _Rule(str, _SHA256.fullmatch, "64 hexadecimal digits"),  # type: ignore[arg-type]
    "license": _Rule(str, lambda x: bool(x) and x.isprintable(), 'an SPDX identifier such as "Apache-2.0"'),
    "languages": _Rule(
        tuple[str, ...],
        lambda codes: all(_LANGUAGE.fullmatch(code) for code in codes),
        'a list of language codes such as ["en", "ko"]',
    ),
    "context": _Rule(int, lambda x: 1 <= x <= _LARGEST, "a whole number of tokens from 1"),
}
_WHOLE = {"top_k", "seed", "max_new_tokens"}


def _sampling_rule(key: str) -> _Rule:
    return _Rule(
        int if key in _WHOLE else float, lambda x: abs(x) <= _LARGEST and not broken_rule(key, x), RULES[key][1]
    )


_SAMPLING = {option.name: _sampling_rule(option.name) for option in fields(SamplingOptions)}


def decode_entry(name: str, table: object, file: Path) -> Entry:
    """Decode the table of the alias `name`. Raises ConfigError with file, table, key and what is allowed."""
    place = Place(file, model_table(name))
    if not isinstance(table, dict):
        raise Place(file, "models", name).refuse(f"must be a table: [{model_table(name)}] with a source")
    plain = {key: value for key, value in table.items() if key != "sampling"}
    values = _decode(plain, _KEYS, place, extra=("sampling",))
    if "source" not in values:
        raise place.refuse(f"lacks the key source: {WORDS}")
    entry = Entry(name=name, origin=file, sampling=_decode_sampling(table.get("sampling", {}), place), **values)
    if isinstance(entry.parsed_source(), WheelSource) and not entry.sha256:
        raise place.refuse("lacks the key sha256, which a wheel: source needs: 64 hexadecimal digits")
    return entry


def _decode_sampling(table: object, place: Place) -> SamplingOptions:
    if not isinstance(table, dict):
        raise Place(place.file, place.table, "sampling").refuse(f"must be a table: [{place.table}.sampling]")
    return SamplingOptions(**_decode(table, _SAMPLING, Place(place.file, f"{place.table}.sampling")))


def _decode(
    table: dict[str, object], rules: dict[str, _Rule], place: Place, extra: tuple[str, ...] = ()
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in table.items():
        here = Place(place.file, place.table, key)
        if key not in rules:
            raise _unknown(here, value, (*rules, *extra))
        values[key] = _value(value, rules[key], here)
    if "sha256" in values:
        values["sha256"] = values["sha256"].lower()
    return values


def _unknown(here: Place, value: object, known: tuple[str, ...]) -> ConfigError:
    if isinstance(value, dict) and "source" in value:  # [models.qwen2.5] is the table "5" in the table "qwen2"
        parent, _, alias = here.table.partition(".")
        return here.refuse(
            "is a table inside a model", f'A name with a dot needs quotes: [{parent}."{alias}.{here.key}"]'
        )
    if "sampling" in known and not nearest(here.key, known) and (near := nearest(here.key, _SAMPLING)):
        return here.refuse(f"is no known key; did you mean {near} in [{here.table}.sampling]?")
    return refuse_unknown(here, known)


def _value(value: object, rule: _Rule, here: Place) -> object:
    try:
        decoded: object = msgspec.convert(value, rule.kind)
    except (msgspec.ValidationError, OverflowError):
        decoded = None
    if decoded is None or not rule.allowed(decoded):
        raise here.refuse(f"= {_shown(value)}: it must be {rule.words}")
    return decoded


def _shown(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"
