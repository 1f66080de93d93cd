"""A request record as one row of a table: dotted column names, in the order of the record."""

import dataclasses
import typing
from collections.abc import Iterator
from typing import Any

import msgspec

from llmcli.inference import Sampling
from llmcli.metrics.record import RequestRecord

Place = tuple[str, ...]


def columns() -> tuple[Place, ...]:
    """Where each column's value stands in a record.

    What has no fixed fields (`versions`, `sampling.origins`, `sampling.stop`) is one column, so that every export has
    the same ones.
    """
    return tuple(_places(RequestRecord, ()))


def cells(document: dict[str, Any], places: tuple[Place, ...]) -> list[str]:
    """The values of one record: null is empty, true and false are words, lists and mappings are JSON."""
    return [_cell(_at(document, place)) for place in places]


def _places(record: type, above: Place) -> Iterator[Place]:
    hints = typing.get_type_hints(record)
    for field in dataclasses.fields(record):
        place = (*above, field.name)
        hint = hints[field.name]
        inner = next((kind for kind in (hint, *typing.get_args(hint)) if dataclasses.is_dataclass(kind)), None)
        if place == ("sampling",):
            names = (*(field.name for field in dataclasses.fields(Sampling)), "stop", "ignore_eos")
            yield from ((*place, name) for name in names)
        elif isinstance(inner, type):
            yield from _places(inner, place)
        else:
            yield place


def _at(document: Any, place: Place) -> Any:
    for name in place:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
