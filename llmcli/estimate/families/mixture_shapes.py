"""Mixtures of experts whose attention differs between layers, or that no style can say."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isqrt

from llmcli.estimate import config as keys
from llmcli.estimate.config import Config, layer_number
from llmcli.estimate.counts import NOTHING, Count, linear, routed_experts, tensor
from llmcli.estimate.experts import SHARED, Mixture, routing
from llmcli.estimate.facts import Attention, Blueprint, Layer
from llmcli.estimate.families.decoder import HeadShape, Shape, Style, build, dense_mlp, sinks
from llmcli.estimate.families.heads import check_groups
from llmcli.estimate.families.mixture_build import build_mixture
from llmcli.estimate.families.mixture_windows import full_unless_typed, one_more, where
from llmcli.estimate.families.self_attention import SelfAttention
from llmcli.estimate.families.stack import stack
from llmcli.estimate.sparse import after, but_first, by_type
from llmcli.estimate.windows import Window, cache_rule

GLM4 = Style(qkv_bias="attention_bias", qk_norm="head", qk_norm_if="use_qk_norm")
DEEPSEEK = Mixture(
    number=("n_routed_experts", "num_local_experts", "num_experts"),
    shared_number=SHARED,
    sparse=after("first_k_dense_replace"),
)
_BIASED = Style(qkv_bias="attention_bias", output_bias="attention_bias")
_DBRX_ATTENTION = {"kv_n_heads": 1}
_DBRX_EXPERTS = {"ffn_hidden_size": 3584, "moe_num_experts": 4, "moe_top_k": 1}


def dbrx(config: Config) -> Blueprint:
    """DBRX: the KV heads stand in attn_config, the experts in ffn_config. Raises ModelError for a bad config."""
    attention = config.section("attn_config", _DBRX_ATTENTION) or Config(config.where, {}, _DBRX_ATTENTION)
    experts = config.section("ffn_config", _DBRX_EXPERTS) or Config(config.where, {}, _DBRX_EXPERTS)
    kv_heads = attention.needed(("kv_n_heads",))
    mixture = Mixture(number=("moe_num_experts",), used=("moe_top_k",), width="ffn_hidden_size", linear_router=True)

    def heads(config: Config, shape: Shape, _index: int, _window: Window | None) -> HeadShape:
        check_groups(config, "attn_config: kv_n_heads", kv_heads, shape.heads)
        return HeadShape(shape.heads, kv_heads, shape.head_dim, shape.head_dim)

    style = Style(kv_heads="all", explicit_head_dim=False, mlp_size="4x", heads=heads)
    blueprint = build_mixture(config, style, lambda _config, layers: mixture(experts, layers))
    return replace(blueprint, kv_heads=kv_heads)


def doge(config: Config) -> Blueprint:
    """Doge: gated values mask the attention; is_moe adds experts of one channel each, found by product keys.

    Every expert is one row of two embeddings (DogeCDMoE). Raises ModelError for a bad config.
    """
    style = replace(_BIASED, qk_norm="head", mlp_bias="mlp_bias")
    number, used = routing(config) if config.flag("is_moe") else (0, 0)

    def mlp(config: Config, shape: Shape, _index: int) -> Count:
        shared = dense_mlp(config, style, shape)
        if not number:
            return shared
        return shared + linear(shape.hidden, 2 * isqrt(number)) + routed_experts(number, used, 2 * shape.hidden)

    def more(config: Config, shape: Shape, _index: int) -> Count:
        steps = linear(shape.kv_heads * shape.head_dim, shape.kv_heads, bias=config.flag("attention_bias"))
        return steps + tensor(shape.kv_heads + 2 * shape.hidden)

    return build(config, replace(style, mlp=mlp, more=more, width=lambda _config, shape: shape.intermediate + used))


def jetmoe(config: Config) -> Blueprint:
    """JetMoE: query and output projections are experts too; keys and values are common to all of them.

    Raises ModelError for a bad config.
    """
    layers, hidden = layer_number(config), config.needed(keys.HIDDEN)
    kv_heads, head_dim = config.needed(keys.KV_HEADS), config.needed(("kv_channels", "head_dim"))
    experts = Mixture(width="intermediate_size", linear_router=True).experts(config)
    windows = cache_rule(config, layers)
    width = kv_heads * head_dim
    queries = routed_experts(experts.number, experts.used, 2 * hidden * width) + linear(hidden, experts.number)
    biases_and_norms = tensor(4, hidden)
    count = experts.count(hidden) + queries + linear(hidden, 2 * width) + biases_and_norms
    attention = (Attention(kv_heads, head_dim, head_dim, window.tokens if window else None) for window in windows)
    heads = SelfAttention(kv_heads * experts.used, kv_heads, head_dim)
    return stack(config, (Layer((mixer,), count) for mixer in attention), experts.token_width, heads)


def laguna(config: Config) -> Blueprint:
    """Laguna: every layer has a number of heads of its own, and a gate per head or per channel of the heads.

    Raises ModelError for a bad config.
    """
    layers = layer_number(config)
    numbers = config.counts("num_attention_heads_per_layer", layers) or (config.needed(keys.HEADS),) * layers
    per_head = config.value(("gating",))[1] in (True, "per-head")

    def heads(config: Config, shape: Shape, index: int, _window: Window | None) -> HeadShape:
        check_groups(config, "num_key_value_heads", shape.kv_heads, numbers[index])
        return HeadShape(numbers[index], shape.kv_heads, shape.head_dim, shape.head_dim)

    def gate(_config: Config, shape: Shape, index: int) -> Count:
        return linear(shape.hidden, numbers[index] * (1 if per_head else shape.head_dim))

    style = replace(_BIASED, qk_norm="head", heads=heads, more=gate, windows=full_unless_typed)
    mixture = Mixture(
        shared_width="shared_expert_intermediate_size", correction_bias=True, sparse=by_type(but_first(1))
    )
    return replace(build_mixture(config, style, mixture), heads=numbers[0])


def sarvam(config: Config) -> Blueprint:
    """Sarvam-MoE: GLM-4.5's decoder, with another name for the biases of queries, keys and values too."""
    named = config.values.get("use_qkv_bias")
    if named is not None:
        config = config.changed({"attention_bias": named})
    return build_mixture(config, GLM4, DEEPSEEK)


def mimo(config: Config) -> Blueprint:
    """MiMo-V2-Flash: windowed layers have twice the KV heads and attention sinks; values are narrower than keys.

    Raises ModelError for a bad config.
    """
    layers = layer_number(config)
    rule = one_more(where(lambda index, _: index > 0 and (index + 1) % 6 > 0))
    windows, value_dim = rule(config, layers), config.needed(("v_head_dim",))

    def heads(config: Config, shape: Shape, _index: int, window: Window | None) -> HeadShape:
        kv_heads = shape.kv_heads * (2 if window else 1)
        check_groups(config, "twice num_key_value_heads" if window else "num_key_value_heads", kv_heads, shape.heads)
        return HeadShape(shape.heads, kv_heads, shape.head_dim, value_dim)

    def more(config: Config, shape: Shape, index: int) -> Count:
        return sinks(config, shape, index) if windows[index] else NOTHING

    style = Style(qkv_bias="attention_bias", heads=heads, more=more, windows=rule)
    return build_mixture(
        config, style, Mixture(number=("n_routed_experts", "num_local_experts"), sparse=by_type(but_first(1)))
    )


OWN: Mapping[str, Callable[[Config], Blueprint]] = {
    "dbrx": dbrx,
    "doge": doge,
    "jetmoe": jetmoe,
    "laguna": laguna,
    "mimo_v2_flash": mimo,
    "sarvam_moe": sarvam,
}
"""The builders of this module by model type."""
