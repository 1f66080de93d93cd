"""The decoder whose layers are latent attention and an MLP or experts, in the style of the model type."""

from collections.abc import Callable
from dataclasses import dataclass

from llmcli.estimate import config as keys
from llmcli.estimate.config import Config, layer_number
from llmcli.estimate.counts import NOTHING, Count, gated_mlp, tensor
from llmcli.estimate.experts import Experts, LayerExperts, MixtureRule
from llmcli.estimate.facts import Blueprint, Layer
from llmcli.estimate.families.indexers import IndexerRule
from llmcli.estimate.families.latent_attention import Indexer, LatentShape, indexer_of, latent_shape
from llmcli.estimate.families.self_attention import SelfAttention
from llmcli.estimate.families.stack import stack
from llmcli.estimate.layers import INDEXED_ATTENTION
from llmcli.estimate.windows import WindowRule, cache_rule


@dataclass(frozen=True, slots=True)
class LatentModel:
    """The sizes of a model. hidden, intermediate: channels of a layer and of a dense MLP, 0 where there is none.

    experts: those of each layer, None for a dense one.
    """

    hidden: int
    intermediate: int
    experts: LayerExperts


LayerRule = Callable[[Config, LatentModel, LatentShape, Experts | None], Count]
ModelRule = Callable[[Config, LatentModel], Count]

_Kind = tuple[int | None, Indexer | None, Experts | None]
"""What tells layers of one model apart: the tokens of the window, the indexer, the experts."""


@dataclass(frozen=True, slots=True)
class LatentStyle:
    """How one model type is built.

    mixture: the experts of each layer; None: every layer has a dense MLP. mlp_bias: the key that gives the dense MLP
    biases, None: it has none. query_rank_needed: queries are always compressed. indexers: which layers have one; None:
    no layer. windows: which layers see a window only, where there are no indexers. attention: the attention's
    parameters, indexer apart, where they are others. more: what else a layer has; around: what else stands around the
    layers.
    """

    mixture: MixtureRule | None = None
    mlp_bias: str | None = None
    query_rank_needed: bool = False
    indexers: IndexerRule | None = None
    windows: WindowRule = cache_rule
    attention: Callable[[LatentShape, int], Count] | None = None
    more: LayerRule | None = None
    around: ModelRule | None = None


def build(config: Config, style: LatentStyle) -> Blueprint:
    """The decoder that `config` describes. Raises ModelError that names what is missing or wrong."""
    shape = latent_shape(config, query_rank_needed=style.query_rank_needed)
    layers = layer_number(config)
    experts = style.mixture(config, layers) if style.mixture else (None,) * layers
    model = latent_model(config, experts)
    return blueprint(config, model, shape, _layers(config, style, model, shape), style.around)


def latent_model(config: Config, experts: LayerExperts) -> LatentModel:
    """The sizes that `config` gives; the width of the dense MLP only where a layer has one."""
    return LatentModel(
        hidden=config.needed(keys.HIDDEN),
        intermediate=config.needed(keys.INTERMEDIATE) if None in experts else 0,
        experts=experts,
    )


def blueprint(
    config: Config,
    model: LatentModel,
    shape: LatentShape,
    layers: tuple[Layer, ...],
    around: ModelRule | None = None,
) -> Blueprint:
    """The whole decoder: its layers, and what stands around them."""
    widths = (model.intermediate, *(one.token_width for one in model.experts if one))
    heads = SelfAttention(shape.heads, shape.heads, shape.key_dim)
    return stack(config, layers, max(widths), heads, around=around(config, model) if around else NOTHING)


def mlp(config: Config, style: LatentStyle, model: LatentModel, experts: Experts | None) -> Count:
    """The experts of a layer, or its dense MLP."""
    if experts:
        return experts.count(model.hidden)
    return gated_mlp(model.hidden, model.intermediate, bias=config.flag(style.mlp_bias) if style.mlp_bias else False)


def _layers(config: Config, style: LatentStyle, model: LatentModel, shape: LatentShape) -> tuple[Layer, ...]:
    number = len(model.experts)
    indexed = style.indexers(config, number) if style.indexers else (False,) * number
    windows = (None,) * number if style.indexers else style.windows(config, number)
    indexer = indexer_of(config) if any(indexed) else None
    kinds = [
        (window.tokens if window else None, indexer if here else None, experts)
        for window, here, experts in zip(windows, indexed, model.experts, strict=True)
    ]
    made = {kind: _layer(config, style, model, shape, kind) for kind in set(kinds)}
    return tuple(made[kind] for kind in kinds)


def _layer(config: Config, style: LatentStyle, model: LatentModel, shape: LatentShape, kind: _Kind) -> Layer:
    window, indexer, experts = kind
    count = style.attention(shape, model.hidden) if style.attention else shape.count(model.hidden)
    count += tensor(2, model.hidden) + mlp(config, style, model, experts)
    if style.more:
        count += style.more(config, model, shape, experts)
    if indexer:
        count += indexer.count(model.hidden, shape.query_rank)
    return Layer((shape.mixer(indexer, window, INDEXED_ATTENTION if style.indexers else None),), count)
