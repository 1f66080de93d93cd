"""How a mixture of experts is built: a style's decoder, with experts where the mixture has them."""

from dataclasses import replace

from llmcli.estimate import config as keys
from llmcli.estimate.config import Config, layer_number
from llmcli.estimate.counts import Count
from llmcli.estimate.experts import LayerExperts, MixtureRule
from llmcli.estimate.facts import Blueprint
from llmcli.estimate.families.decoder import Shape, Style, build, dense_mlp


def build_mixture(config: Config, style: Style, mixture: MixtureRule, dense_width: str | None = None) -> Blueprint:
    """The decoder that `config` describes; dense_width: the key for the MLP of its dense layers.

    Raises ModelError that names what is missing or wrong.
    """
    layers = mixture(config, layer_number(config))
    hidden = config.needed(keys.HIDDEN)
    counts = {experts: experts.count(hidden) for experts in set(layers) if experts}
    own_width = config.count((dense_width,)) if dense_width else None

    def mlp(config: Config, shape: Shape, index: int) -> Count:
        experts = layers[index]
        return counts[experts] if experts else dense_mlp(config, style, shape, own_width)

    def width(_config: Config, shape: Shape) -> int:
        return widest(layers, own_width or shape.intermediate)

    return build(config, replace(style, mlp=mlp, width=width))


def widest(layers: LayerExperts, dense: int) -> int:
    """The most channels of an MLP or of experts that a token passes through in one layer."""
    return max(experts.token_width if experts else dense for experts in set(layers))
