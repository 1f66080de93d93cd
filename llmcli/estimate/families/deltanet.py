"""Gated delta nets with attention in every few layers: Qwen3-Next, Qwen3.5, OLMo-Hybrid, Lara."""

from dataclasses import replace
from typing import Literal

from llmcli.estimate import config as keys
from llmcli.estimate.config import Config, layer_number
from llmcli.estimate.counts import Count, gated_mlp, tensor
from llmcli.estimate.experts import Experts, Mixture
from llmcli.estimate.facts import Blueprint, Layer
from llmcli.estimate.families.delta_rule import DeltaNet, delta_net_of
from llmcli.estimate.families.kinds import Kinds, every, kinds_of
from llmcli.estimate.families.self_attention import SelfAttention, self_attention
from llmcli.estimate.families.stack import layers_of, stack
from llmcli.estimate.layers import FULL_ATTENTION, LINEAR_ATTENTION, SLIDING_ATTENTION
from llmcli.estimate.sparse import by_step

_MIXTURE = Mixture(shared_width="shared_expert_intermediate_size", shared_gate=True)
_KINDS = (LINEAR_ATTENTION, FULL_ATTENTION)
_LARA = (LINEAR_ATTENTION, SLIDING_ATTENTION, LINEAR_ATTENTION, FULL_ATTENTION, SLIDING_ATTENTION)


def qwen3_next(config: Config) -> Blueprint:
    """Qwen3NextForCausalLM: experts, or a dense MLP in the layers that have none. Raises ModelError."""
    return _qwen(config, replace(_MIXTURE, sparse=by_step), "gated")


def qwen3_5(config: Config) -> Blueprint:
    """Qwen3_5ForCausalLM: a dense MLP in every layer. Raises ModelError that names what is missing or wrong."""
    return _qwen(config, None)


def qwen3_5_moe(config: Config) -> Blueprint:
    """Qwen3_5MoeForCausalLM: experts in every layer. Raises ModelError that names what is missing or wrong."""
    return _qwen(config, _MIXTURE)


def lara(config: Config) -> Blueprint:
    """LaraMiniForCausalLM: full attention, windows and delta nets, and experts in every layer. Raises ModelError."""
    kinds = kinds_of(
        config, layer_number(config), (*_KINDS, SLIDING_ATTENTION), lambda index: _LARA[index % len(_LARA)]
    )
    attention = self_attention(config, bias="attention_bias", qk_norm="head")
    return _decoder(config, kinds, attention, replace(_MIXTURE, shared_gate=False))


def olmo_hybrid(config: Config) -> Blueprint:
    """OlmoHybridForCausalLM: a dense MLP; attention layers have three norms. Raises ModelError for what is wrong."""
    layers, hidden = layer_number(config), config.needed(keys.HIDDEN)
    width = config.needed(keys.INTERMEDIATE)
    kinds = kinds_of(config, layers, _KINDS, lambda index: FULL_ATTENTION if index % 4 == 3 else LINEAR_ATTENTION)
    if FULL_ATTENTION not in kinds:
        kinds = (*kinds[:-1], FULL_ATTENTION)
    attention, delta = self_attention(config, bias="attention_bias", qk_norm="heads"), _olmo_delta(config)
    mlp = gated_mlp(hidden, width)
    full = Layer((attention.mixer(),), attention.count(hidden) + mlp + tensor(2, hidden))
    linear = Layer((delta.mixer(),), delta.count() + mlp + tensor(2, hidden))
    return stack(config, (full if kind == FULL_ATTENTION else linear for kind in kinds), width, attention)


def _qwen(config: Config, mixture: Mixture | None, inputs: Literal["convolved", "gated"] = "convolved") -> Blueprint:
    kinds = kinds_of(config, layer_number(config), _KINDS, every(config, "full_attention_interval", 4))
    attention = self_attention(config, bias="attention_bias", gated=True, qk_norm="head")
    return _decoder(config, kinds, attention, mixture, inputs)


def _decoder(
    config: Config,
    kinds: Kinds,
    attention: SelfAttention,
    mixture: Mixture | None,
    inputs: Literal["convolved", "gated"] = "convolved",
) -> Blueprint:
    """The layers of these kinds, each with two norms and an MLP or experts. inputs: see `DeltaNet`."""
    hidden, delta = config.needed(keys.HIDDEN), replace(delta_net_of(config), inputs=inputs)
    experts = mixture(config, len(kinds)) if mixture else (None,) * len(kinds)
    dense = config.needed(keys.INTERMEDIATE) if None in experts else 0
    window = config.needed(("sliding_window",)) if SLIDING_ATTENTION in kinds else None
    widths = (dense, *(one.token_width for one in experts if one))

    def layer(parts: tuple[str, Experts | None]) -> Layer:
        kind, mixed = parts
        mlp = mixed.count(hidden) if mixed else gated_mlp(hidden, dense)
        return _layer(kind, attention, delta, mlp + tensor(2, hidden), window)

    layers = layers_of(zip(kinds, experts, strict=True), layer)
    return stack(config, layers, max(widths), attention)


def _layer(kind: str, attention: SelfAttention, delta: DeltaNet, rest: Count, window: int | None) -> Layer:
    if kind == LINEAR_ATTENTION:
        return Layer((delta.mixer(),), delta.count() + rest)
    seen = window if kind == SLIDING_ATTENTION else None
    return Layer((attention.mixer(seen),), attention.count(delta.hidden) + rest)


def _olmo_delta(config: Config) -> DeltaNet:
    """The delta net, whose sizes follow from the attention's where the config says none."""
    hidden, heads = config.needed(keys.HIDDEN), config.needed(keys.HEADS)
    key_heads = config.count(("linear_num_key_heads",)) or heads
    key_dim = config.count(("linear_key_head_dim",)) or int(0.75 * hidden / key_heads)
    return DeltaNet(
        hidden=hidden,
        key_heads=key_heads,
        value_heads=config.count(("linear_num_value_heads",)) or heads,
        key_dim=key_dim,
        value_dim=config.count(("linear_value_head_dim",)) or 2 * key_dim,
        kernel=config.needed(("linear_conv_kernel_dim",)),
        inputs="apart",
    )


BUILDERS = {
    "lara_mini": lara,
    "olmo_hybrid": olmo_hybrid,
    "qwen3_5_moe_text": qwen3_5_moe,
    "qwen3_5_text": qwen3_5,
    "qwen3_next": qwen3_next,
}
