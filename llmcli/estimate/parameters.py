"""The number of parameters of a dense decoder-only model, in closed form.

Per layer: q, k, v and output projections, MLP, norms, and what `Family` says of biases; around the layers: embedding,
final norm, head. Proved against transformers' own classes for every family in the tests.
"""

from dataclasses import dataclass

from llmcli.estimate.config import Config
from llmcli.estimate.families import Bias, Family


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model: counts, and widths in elements."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    positions: int | None


@dataclass(frozen=True, slots=True)
class ParameterCount:
    """Parameters of the whole model, those in the decoder's linear layers, and the output channels of those layers."""

    total: int
    linear: int
    linear_rows: int


def count_parameters(shape: Shape, family: Family, config: Config) -> ParameterCount:
    """Parameters of a model of this shape. Raises ModelError when a flag of the config is no boolean."""
    linear = _attention_weights(shape) + _mlp_weights(shape, family)
    layer = linear + _biases(shape, family, config) + _layer_norms(shape, family, config)
    outside = _embeddings(shape, family) + family.norm * shape.hidden + _head(shape, family, config)
    return ParameterCount(
        total=shape.layers * layer + outside,
        linear=shape.layers * linear,
        linear_rows=shape.layers * _linear_rows(shape, family),
    )


def _linear_rows(shape: Shape, family: Family) -> int:
    """Output channels of one layer: of q, k, v and output projections, and of the MLP."""
    attention = (shape.heads + 2 * shape.kv_heads) * shape.head_dim + shape.hidden
    return attention + (2 if family.gated_mlp else 1) * shape.intermediate + shape.hidden


def _attention_weights(shape: Shape) -> int:
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    return shape.hidden * (2 * queries + 2 * keys)


def _mlp_weights(shape: Shape, family: Family) -> int:
    return (3 if family.gated_mlp else 2) * shape.hidden * shape.intermediate


def _biases(shape: Shape, family: Family, config: Config) -> int:
    total = 0
    if _on(family.qkv_bias, config):
        total += (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    if _on(family.output_bias, config):
        total += shape.hidden
    if _on(family.mlp_bias, config):
        total += (2 if family.gated_mlp else 1) * shape.intermediate + shape.hidden
    return total


def _layer_norms(shape: Shape, family: Family, config: Config) -> int:
    norms = family.norms
    if family.fewer_norms_if and config.flag(family.fewer_norms_if):
        norms -= 1
    total = norms * family.norm * shape.hidden
    if family.qk_norm and (family.qk_norm_if is None or config.flag(family.qk_norm_if)):
        normed_heads = 2 if family.qk_norm == "head" else shape.heads + shape.kv_heads
        total += family.qk_norm_weights * normed_heads * shape.head_dim
    return total


def _embeddings(shape: Shape, family: Family) -> int:
    total = shape.vocabulary * shape.hidden
    if family.learned_positions and shape.positions:
        total += shape.positions * shape.hidden
    if family.embedding_norm:
        total += family.norm * shape.hidden
    return total


def _head(shape: Shape, family: Family, config: Config) -> int:
    total = 0 if config.flag("tie_word_embeddings") else shape.vocabulary * shape.hidden
    return total + (shape.vocabulary if family.head_bias else 0)


def _on(bias: Bias, config: Config) -> bool:
    return bias if isinstance(bias, bool) else config.flag(bias)
