"""LongCat-Flash: two attentions and two dense MLPs in every layer, and one mixture of experts beside them.

Read in transformers 5.24, LongcatFlashDecoderLayer: each attention has a cache of its own. Experts without weights, of
which the router knows zero_expert_num, pass a token through as it is; the first projection has room for them all the
same.
"""

from llmcli.estimate import config as keys
from llmcli.estimate.config import Config, layer_number
from llmcli.estimate.counts import Count, gated_mlp, tensor
from llmcli.estimate.experts import Mixture
from llmcli.estimate.facts import Blueprint, Layer
from llmcli.estimate.families.latent_attention import latent_shape
from llmcli.estimate.families.latent_decoder import LatentModel, blueprint
from llmcli.estimate.windows import cache_rule

_IDENTITIES = "zero_expert_num"
_MIXTURE = Mixture(
    width="expert_ffn_hidden_size", linear_router=True, router_bias="router_bias", identities=_IDENTITIES
)
_WIDTH = ("ffn_hidden_size", *keys.INTERMEDIATE)


def build(config: Config) -> Blueprint:
    """The decoder that `config` describes. Raises ModelError that names what is missing or wrong."""
    number = layer_number(config)
    shape = latent_shape(config, query_rank_needed=True)
    model = LatentModel(
        hidden=config.needed(keys.HIDDEN),
        intermediate=config.needed(_WIDTH),
        experts=_MIXTURE(config, number),
    )
    each = shape.count(model.hidden) + gated_mlp(model.hidden, model.intermediate) + tensor(2, model.hidden)
    layer = each * 2 + _experts(config, model)
    windows = (window.tokens if window else None for window in cache_rule(config, number))
    layers = tuple(Layer((shape.mixer(window=window),) * 2, layer) for window in windows)
    return blueprint(config, model, shape, layers)


def _experts(config: Config, model: LatentModel) -> Count:
    experts = _MIXTURE.experts(config)
    unused = experts.identities * 2 * experts.width * model.hidden
    return experts.count(model.hidden) + Count(total=unused, experts=unused, idle=unused)
