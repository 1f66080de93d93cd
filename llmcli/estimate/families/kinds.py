"""Which kind each layer of a hybrid is, under the names that transformers 5.24 has for layer types."""

from collections.abc import Callable, Sequence

from llmcli.errors import ModelError
from llmcli.estimate.config import Config, shown
from llmcli.estimate.layers import FULL_ATTENTION, INDEXED_ATTENTION, LINEAR_ATTENTION

MLP = "mlp"
MOE = "moe"

Kinds = tuple[str, ...]

_RENAMED = {
    "mamba": LINEAR_ATTENTION,
    "attention": FULL_ATTENTION,
    "qwen_sparse_attention": INDEXED_ATTENTION,
}
_TYPES = ("layer_types", "layers_block_type")


def kinds_of(config: Config, layers: int, known: Sequence[str], otherwise: Callable[[int], str]) -> Kinds:
    """The kind of each layer: what layer_types (or layers_block_type) names, else `otherwise` of the layer's number.

    Raises ModelError for a kind that is not in `known`, and for a list of another length.
    """
    named = listed(config, known, layers)
    return tuple(otherwise(index) for index in range(layers)) if named is None else named


def listed(config: Config, known: Sequence[str], layers: int | None = None) -> Kinds | None:
    """The kinds that the config lists, None where it has no list. Raises ModelError as `kinds_of` does."""
    for key in _TYPES:
        named = config.texts(key, layers)
        if named is not None:
            return tuple(_known(config, key, name, known) for name in named)
    return None


def every(config: Config, key: str, otherwise: int, kind: str = FULL_ATTENTION) -> Callable[[int], str]:
    """`kind` in every n-th layer and linear attention in the others, n being the config's `key`, or `otherwise`."""
    n = config.count((key,)) or otherwise
    return lambda index: LINEAR_ATTENTION if (index + 1) % n else kind


def periodic(config: Config, period: str, offset: str, kind: str) -> Callable[[int], str]:
    """`kind` where the layer's number modulo the config's `period` is its `offset`, and linear attention elsewhere."""
    n, first = config.needed((period,)), config.size(offset)
    return lambda index: kind if index % n == first else LINEAR_ATTENTION


def _known(config: Config, key: str, name: str, known: Sequence[str]) -> str:
    kind = _RENAMED.get(name, name)
    if kind not in known:
        raise ModelError(
            f"{config.where}: {key} has {shown(name)}, which is no kind of layer that this model type has",
            f"Known here: {', '.join(known)}.",
        )
    return kind
