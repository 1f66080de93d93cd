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


def by_step(config: Config, layers: int) -> tuple[bool, ...]:
    """Qwen's rule: every decoder_sparse_step-th layer but those in mlp_only_layers; none where there are no experts."""
    if config.count(NUMBER, least=0) == 0:
        return (False,) * layers
    step = config.count(("decoder_sparse_step",)) or 1
    dense = set(config.counts("mlp_only_layers") or ())
    return tuple((index + 1) % step == 0 and index not in dense for index in range(layers))


def _sparse(config: Config, name: str) -> bool:
    if name not in (SPARSE, DENSE):
        raise ModelError(
            f"{config.where}: mlp_layer_types has {shown(name)}, which is no kind of MLP that this model type has",
            f"Known here: {SPARSE}, {DENSE}.",
        )
    return name == SPARSE
