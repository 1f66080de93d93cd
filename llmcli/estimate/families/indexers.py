"""Which layers run an indexer of their own: the others look at the tokens that the last one before them picked.

Every rule takes the config and the number of layers, and returns whether each layer has an indexer.
"""

from collections.abc import Callable
from typing import NoReturn

from llmcli.errors import ModelError
from llmcli.estimate.config import Config, shown
from llmcli.estimate.layers import INDEXED_ATTENTION

FULL = "full"
SHARED = "shared"

IndexerRule = Callable[[Config, int], tuple[bool, ...]]

_LETTERS = {"F": FULL, "S": SHARED}


def in_all(config: Config, layers: int) -> tuple[bool, ...]:
    """Every layer has one. Raises ModelError where layer_types names another kind of layer."""
    check_types(config, layers)
    return (True,) * layers


def by_schedule(config: Config, layers: int) -> tuple[bool, ...]:
    """GLM-5: indexer_types, else index_topk_pattern, else every index_topk_freq-th after index_skip_topk_offset."""
    check_types(config, layers)
    types = config.texts("indexer_types", layers) or _pattern(config, layers)
    if types is not None:
        return _full(config, types)
    every = max(config.size("index_topk_freq", 1), 1)
    offset = config.size("index_skip_topk_offset", 2)
    return tuple(max(index - offset + 1, 0) % every == 0 for index in range(layers))


def by_fours(config: Config, layers: int) -> tuple[bool, ...]:
    """HY-V4: indexer_types, else the first layer, and from the second on every fourth."""
    check_types(config, layers)
    if (types := config.texts("indexer_types", layers)) is not None:
        return _full(config, types)
    return tuple(index == 0 or (index - 1) % 4 == 0 for index in range(layers))


def check_types(config: Config, layers: int) -> None:
    """Raise ModelError where layer_types, if there is such a list, names a layer that is not indexed."""
    for name in config.texts("layer_types", layers) or ():
        if name != INDEXED_ATTENTION:
            _unknown(config, "layer_types", name, INDEXED_ATTENTION)


def _pattern(config: Config, layers: int) -> tuple[str, ...] | None:
    """index_topk_pattern as a list of texts: a text of one letter per layer, or such a list already."""
    if not isinstance(config.raw(("index_topk_pattern",))[1], str):
        return config.texts("index_topk_pattern", layers)
    letters = config.text(("index_topk_pattern",)) or ""
    if len(letters) != layers:
        raise ModelError(
            f"{config.where}: index_topk_pattern has {len(letters)} letters where the model has {layers} layers",
            "One letter per layer: F for an indexer of its own, S for a shared one.",
        )
    return tuple(_LETTERS.get(letter, letter) for letter in letters)


def _full(config: Config, types: tuple[str, ...]) -> tuple[bool, ...]:
    for name in types:
        if name not in (FULL, SHARED):
            _unknown(config, "indexer_types", name, f"{FULL}, {SHARED}")
    if types and types[0] != FULL:
        raise ModelError(
            f"{config.where}: indexer_types starts with {shown(types[0])}, but no layer before it has an indexer",
            f"The first layer must be {FULL}: check the file.",
        )
    return tuple(name == FULL for name in types)


def _unknown(config: Config, key: str, name: str, known: str) -> NoReturn:
    raise ModelError(
        f"{config.where}: {key} has {shown(name)}, which this model type does not have", f"Known here: {known}."
    )
