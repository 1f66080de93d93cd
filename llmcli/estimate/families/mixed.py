"""A decoder with a mixture of experts in place of the MLP in some of its layers."""

from dataclasses import replace

from llmcli.estimate.config import Config
from llmcli.estimate.counts import Count
from llmcli.estimate.experts import MixtureRule
from llmcli.estimate.facts import Blueprint
from llmcli.estimate.families.decoder import Shape, Style, build, dense_mlp, shape_of


def build_mixture(config: Config, style: Style, mixture: MixtureRule) -> Blueprint:
    """The decoder with experts in place of the MLP where `mixture` has some. Raises ModelError as `build` does."""
    experts = mixture(config, shape_of(config, style).layers)

    def mlp(config: Config, shape: Shape, index: int) -> Count:
        here = experts[index]
        return here.count(shape.hidden) if here else dense_mlp(config, style, shape)

    def width(_config: Config, shape: Shape) -> int:
        return max(here.token_width if here else shape.intermediate for here in experts)

    return build(config, replace(style, mlp=mlp, width=width))
