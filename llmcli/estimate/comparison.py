"""The same cache in the other engines."""

from llmcli.errors import LlmcliError, UsageError
from llmcli.estimate.dtypes import BYTES, Format
from llmcli.estimate.engines.named import ENGINES
from llmcli.estimate.engines.rules import Engine
from llmcli.estimate.layers import shared_bytes, steady_bytes
from llmcli.estimate.report import ComparisonPart, Row
from llmcli.estimate.sizer import Sizer

_COMMON = "f16"
"""A format that every engine has."""


def compare(sizer: Sizer, engine: Engine, row: Row) -> tuple[tuple[ComparisonPart, ...], tuple[str, ...]]:
    """The cache of `row` in the engines beside `engine`, and notes on what could not be compared as it is."""
    parts, notes = [], []
    for other in ENGINES.values():
        if other.name == engine.name:
            continue
        try:
            kv = _format(sizer.kv, other)
            held = _held(sizer, other.on(sizer.vram), kv, row)
        except LlmcliError:
            notes.append(
                f"{other.name} is not compared: how it keeps the cache of {sizer.model.model_type} is not known here"
            )
            continue
        if _changed(sizer.kv, kv):
            notes.append(f"{other.name} is compared in {kv.name}: it keeps no cache in {sizer.kv.name}")
        ratio = held / row.kv_bytes if row.kv_bytes else 1.0
        parts.append(ComparisonPart(other.name, other.version, row.context, row.batch, held, ratio))
    return tuple(parts), tuple(notes)


def _format(asked: Format, other: Engine) -> Format:
    try:
        return other.kv_format(asked.name)
    except UsageError:
        return other.kv_format(_COMMON)


def _changed(asked: Format, kv: Format) -> bool:
    return asked.bytes * kv.elements != kv.bytes * asked.elements


def _held(sizer: Sizer, other: Engine, kv: Format, row: Row) -> int:
    layers = other.storage(sizer.model, kv, kv.name if kv.name in BYTES else sizer.loaded.dtype)
    return row.batch * steady_bytes(layers, row.context) + shared_bytes(layers)
