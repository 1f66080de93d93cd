"""Kimi delta attention with latent attention in every few layers, and experts: Kimi-Linear, Bailing-Hybrid (Ling)."""

from dataclasses import dataclass

from llmcli.estimate import config as keys
from llmcli.estimate.config import Config, layer_number
from llmcli.estimate.counts import NOTHING, Count, gated_mlp, linear, tensor
from llmcli.estimate.experts import LayerExperts, Mixture
from llmcli.estimate.facts import Blueprint, Layer
from llmcli.estimate.families.delta_rule import KERNEL, KimiDelta
from llmcli.estimate.families.kinds import Kinds, every, kinds_of
from llmcli.estimate.families.latent_attention import LatentShape, latent_shape
from llmcli.estimate.families.self_attention import SelfAttention
from llmcli.estimate.families.stack import layers_of, stack
from llmcli.estimate.layers import FULL_ATTENTION, LINEAR_ATTENTION
from llmcli.estimate.sparse import after, by_type

_KINDS = (LINEAR_ATTENTION, FULL_ATTENTION)
_MIXTURE = Mixture(
    number=("num_experts", "num_local_experts"),
    used=("num_experts_per_token", "num_experts_per_tok"),
    shared_number=("num_shared_experts", "n_shared_experts"),
    sparse=by_type(after("first_k_dense_replace")),
)


@dataclass(frozen=True, slots=True)
class Mixers:
    """The two mixers of a model. gated: latent attention has a gate per head."""

    delta: KimiDelta
    latent: LatentShape
    gated: bool

    def layer(self, kind: str, mlp: Count) -> Layer:
        """A layer of this kind: its mixer, two norms and its MLP."""
        hidden = self.delta.hidden
        rest = mlp + tensor(2, hidden)
        if kind == LINEAR_ATTENTION:
            return Layer((self.delta.mixer(),), self.delta.count() + rest)
        gate = linear(hidden, self.latent.heads) if self.gated else NOTHING
        return Layer((self.latent.mixer(),), self.latent.count(hidden) + gate + rest)


def kimi_linear(config: Config) -> Blueprint:
    """KimiLinearForCausalLM. Raises ModelError that names what is missing or wrong."""
    section = config.section("linear_attn_config") or Config(config.where, {})
    delta = KimiDelta(
        hidden=config.needed(keys.HIDDEN),
        heads=section.count(("num_heads",)) or config.needed(("linear_num_heads",)),
        head_dim=section.count(("head_dim",)) or config.needed(("linear_head_dim",)),
        kernel=section.count(("short_conv_kernel_size",)) or config.needed(KERNEL),
    )
    dense = {"first_k_dense_replace": 1} | dict(config.values)
    config = Config(config.where, dense, config.defaults)
    return _decoder(config, Mixers(delta, latent_shape(config), gated=False), _kimi_kinds(config, section))


def bailing_hybrid(config: Config) -> Blueprint:
    """BailingHybridForCausalLM, whose class saves the sizes of its linear layers under names of their own.

    Raises ModelError that names what is missing or wrong.
    """
    delta = KimiDelta(
        hidden=config.needed(keys.HIDDEN),
        heads=config.needed(("linear_num_heads", *keys.HEADS)),
        head_dim=config.needed(("linear_head_dim", *keys.HEAD_DIM)),
        kernel=config.needed((*KERNEL, "short_conv_kernel_size")),
        low_rank=False,
    )
    kinds = kinds_of(config, layer_number(config), _KINDS, every(config, "layer_group_size", 1))
    return _decoder(config, Mixers(delta, latent_shape(config), gated=True), kinds)


def _decoder(config: Config, mixers: Mixers, kinds: Kinds) -> Blueprint:
    experts: LayerExperts = _MIXTURE(config, len(kinds))
    hidden = mixers.delta.hidden
    dense = config.needed(keys.INTERMEDIATE) if None in experts else 0
    mlps = {one: one.count(hidden) if one else gated_mlp(hidden, dense) for one in set(experts)}
    parts = zip(kinds, (mlps[one] for one in experts), strict=True)
    layers = layers_of(parts, lambda part: mixers.layer(*part))
    width = max(dense, *(one.token_width if one else 0 for one in experts))
    heads = mixers.latent.heads
    shown = SelfAttention(heads, heads, mixers.latent.key_dim)
    return stack(config, layers, width, shown if FULL_ATTENTION in kinds else None, own_head=True)


def _kimi_kinds(config: Config, section: Config) -> Kinds:
    """What layer_types names, else the lists of linear_attn_config, counted from 1, else every fourth but the first."""
    full, linear_ = section.counts("full_attn_layers"), section.counts("kda_layers")
    number = layer_number(config)
    if full is not None and linear_ is not None:
        said = {index - 1: LINEAR_ATTENTION for index in linear_} | {index - 1: FULL_ATTENTION for index in full}
        if set(said) != set(range(number)) and config.absent(("layer_types",)):
            raise section.wrong(
                "full_attn_layers", [*full, *linear_], f"not, together with kda_layers, the layers from 1 to {number}"
            )
        return kinds_of(config, number, _KINDS, lambda index: said.get(index, LINEAR_ATTENTION))
    return kinds_of(
        config, number, _KINDS, lambda index: LINEAR_ATTENTION if index % 4 or not index else FULL_ATTENTION
    )


BUILDERS = {"bailing_hybrid": bailing_hybrid, "kimi_linear": kimi_linear}
