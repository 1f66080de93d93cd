"""ZAYA: attention behind short convolutions, and experts in every layer.

Read in transformers 5.24, ZayaForCausalLM: besides keys and values a layer keeps the inputs of its two convolutions but
the current one, and the half of the last values that the next token takes over, in the dtype that the model runs in.
"""

from dataclasses import replace

from llmcli.estimate import config as keys
from llmcli.estimate.config import Config, layer_number
from llmcli.estimate.counts import NOTHING, Count, gated_mlp, linear, routed_experts, tensor
from llmcli.estimate.experts import Mixture
from llmcli.estimate.facts import Blueprint, Layer, Recurrence
from llmcli.estimate.families.kinds import kinds_of
from llmcli.estimate.families.self_attention import SelfAttention, self_attention
from llmcli.estimate.families.stack import layers_of, stack
from llmcli.estimate.layers import HYBRID, HYBRID_SLIDING

_MIXTURE = Mixture()


def zaya(config: Config) -> Blueprint:
    """ZayaForCausalLM. Raises ModelError that names what is missing or wrong."""
    hidden, attention, experts = config.needed(keys.HIDDEN), _self_attention(config), _MIXTURE.experts(config)
    kinds = kinds_of(config, layer_number(config), (HYBRID, HYBRID_SLIDING), lambda _index: HYBRID)
    window = config.needed(("sliding_window",)) if HYBRID_SLIDING in kinds else None
    kernels = config.needed(("cca_time0",)), config.needed(("cca_time1",))
    router = config.needed(("router_hidden_size",))
    routed = routed_experts(experts.number, experts.used, gated_mlp(hidden, experts.width).total)
    count = (
        _attention(attention, hidden, kernels) + tensor(10, hidden) + routed + _router(hidden, router, experts.number)
    )

    def layer(part: tuple[str, bool]) -> Layer:
        kind, first = part
        seen = window if kind == HYBRID_SLIDING else None
        mixers = attention.mixer(seen, kind), _state(attention, kernels, kind)
        return Layer(mixers, count + tensor(0 if first else router))

    layers = layers_of(((kind, index == 0) for index, kind in enumerate(kinds)), layer)
    bias = tensor(config.needed(keys.VOCABULARY)) if config.flag("lm_head_bias") else NOTHING
    return stack(config, layers, experts.token_width, attention, around=tensor(2, hidden) + bias)


def _self_attention(config: Config) -> SelfAttention:
    return self_attention(config, bias="attention_bias")


def _attention(attention: SelfAttention, hidden: int, kernels: tuple[int, int]) -> Count:
    """The projections, a convolution per channel, one per head, both with a bias, and a temperature per KV head."""
    channels = (attention.heads + attention.kv_heads) * attention.head_dim
    depthwise, grouped = kernels
    convolutions = tensor(channels, depthwise + 1) + tensor(channels, attention.head_dim * grouped + 1)
    return _projections(attention, hidden) + convolutions + tensor(attention.kv_heads)


def _projections(attention: SelfAttention, hidden: int) -> Count:
    """Those of any attention, but that half of the values are projected apart."""
    whole, values = attention.count(hidden), attention.kv_heads * attention.head_dim
    halves = linear(hidden, values // 2) * 2
    return replace(whole, even=whole.even - linear(hidden, values).even + halves.even)


def _state(attention: SelfAttention, kernels: tuple[int, int], kind: str) -> Recurrence:
    channels = (attention.heads + attention.kv_heads) * attention.head_dim
    return Recurrence(shift=channels * (sum(kernels) - 2) + attention.kv_heads * attention.head_dim // 2, kind=kind)


def _router(hidden: int, width: int, experts: int) -> Count:
    """A projection, a norm and an MLP of three linear layers; one route more than there are experts skips them."""
    mlp = linear(width, width, bias=True) * 2 + linear(width, experts + 1)
    return linear(hidden, width, bias=True) + tensor(width) + mlp


BUILDERS = {"zaya": zaya}
