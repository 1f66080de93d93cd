"""ERNIE 4.5 VL's decoder: in its sparse layers, experts for text and as many narrower ones for images.

Read in transformers 5.24, models/ernie4_5_vl_moe/modeling_ernie4_5_vl_moe.py (`Ernie4_5_VLMoeMoeBlock`): each of the
two has a router of its own; shared experts are as wide as those for text.
"""

from dataclasses import replace

from llmcli.errors import ModelError
from llmcli.estimate.config import Config
from llmcli.estimate.counts import NOTHING, Count
from llmcli.estimate.experts import SHARED, Experts, Mixture
from llmcli.estimate.facts import Blueprint
from llmcli.estimate.families.decoder import Style
from llmcli.estimate.families.mixture_build import build_mixture
from llmcli.estimate.sparse import but_first, by_type

_WIDTHS = "moe_intermediate_size"
_STYLE = Style(qkv_bias="use_bias", output_bias="use_bias", mlp_bias="use_bias")


_IMAGE = Mixture(correction_bias=True, sparse=by_type(but_first(1)))
_TEXT = replace(_IMAGE, shared_number=SHARED, shared_bias="use_bias")


def build_ernie_vl(config: Config) -> Blueprint:
    """The decoder, whose experts for images no token of a text uses. Raises ModelError that names what is wrong."""
    text, image = _widths(config)
    plain = build_mixture(_with_width(config, text), _STYLE, _TEXT)
    experts = _IMAGE(_with_width(config, image), len(plain.layers))
    layers = tuple(
        replace(layer, count=layer.count + _idle(here, plain.hidden))
        for layer, here in zip(plain.layers, experts, strict=True)
    )
    return replace(plain, layers=layers)


def _widths(config: Config) -> tuple[int, int]:
    widths = config.counts(_WIDTHS) or (1536, 512)
    if len(widths) != 2 or not all(widths):
        raise ModelError(
            f"{config.where}: {_WIDTHS} has no two widths above 0",
            "This model type has experts for text and experts for images: one width each.",
        )
    return widths[0], widths[1]


def _with_width(config: Config, width: int) -> Config:
    return config.changed({_WIDTHS: width})


def _idle(experts: Experts | None, hidden: int) -> Count:
    if experts is None:
        return NOTHING
    count = experts.count(hidden)
    return replace(count, idle=count.total)
