"""Which layers have experts and which a dense MLP, as each model type's config says it.

Every function takes the config and the number of layers, and returns whether each of them is sparse.
"""

from llmcli.errors import ModelError
from llmcli.estimate.config import Config, shown
from llmcli.estimate.experts import NUMBER, SparseRule

SPARSE = "sparse"
DENSE = "dense"


def after(first: str) -> SparseRule:
    """Experts from the layer on whose number the config's key `first` gives."""

    def rule(config: Config, layers: int) -> tuple[bool, ...]:
        dense = config.size(first)
        return tuple(index >= dense for index in range(layers))

    return rule


def by_type(otherwise: SparseRule) -> SparseRule:
    """What mlp_layer_types names; `otherwise` where the config has no such list."""

    def rule(config: Config, layers: int) -> tuple[bool, ...]:
        types = config.texts("mlp_layer_types", layers)
        return otherwise(config, layers) if types is None else tuple(_sparse(config, name) for name in types)

    return rule


def by_step_but(dense: tuple[int, ...]) -> SparseRule:
    """Every decoder_sparse_step-th layer but those in mlp_only_layers, or `dense`; none where there are no experts."""

    def rule(config: Config, layers: int) -> tuple[bool, ...]:
        if config.count(NUMBER, least=0) == 0:
            return (False,) * layers
        step = config.count(("decoder_sparse_step",)) or 1
        named = config.counts("mlp_only_layers")
        without = set(dense if named is None else named)
        return tuple((index + 1) % step == 0 and index not in without for index in range(layers))

    return rule


by_step = by_step_but(())
"""Qwen's rule."""


def but_first(dense: int) -> SparseRule:
    """All layers but the first `dense`, whatever the config says."""

    def rule(_config: Config, layers: int) -> tuple[bool, ...]:
        return tuple(index >= dense for index in range(layers))

    return rule


def listed(key: str, period: str) -> SparseRule:
    """The layers whose numbers the config's `key` lists; without the list every n-th, n being the config's `period`."""

    def rule(config: Config, layers: int) -> tuple[bool, ...]:
        named = config.counts(key)
        if named is not None:
            chosen = set(named)
            return tuple(index in chosen for index in range(layers))
        n = config.count((period,)) or 1
        return tuple((index + 1) % n == 0 for index in range(layers))

    return rule


def by_end(config: Config, layers: int) -> tuple[bool, ...]:
    """Every moe_layer_interval-th layer from moe_layer_start_index to moe_layer_end_index (-1: the last)."""
    first, end = config.size("moe_layer_start_index"), config.count(("moe_layer_end_index",), least=-1)
    n = config.count(("moe_layer_interval",)) or 1
    last = layers - 1 if end is None or end < 0 else end
    return tuple((index + 1) % n == 0 and first <= index <= last for index in range(layers))


def _sparse(config: Config, name: str) -> bool:
    if name not in (SPARSE, DENSE):
        raise ModelError(
            f"{config.where}: mlp_layer_types has {shown(name)}, which is no kind of MLP that this model type has",
            f"Known here: {SPARSE}, {DENSE}.",
        )
    return name == SPARSE
