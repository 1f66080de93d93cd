"""State spaces with attention in some layers, an MLP or experts in every one: Bamba, Granite 4, Jamba, Falcon-H1."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from llmcli.estimate import config as keys
from llmcli.estimate.config import Config, layer_number
from llmcli.estimate.counts import NOTHING, Count, gated_mlp, joint_mlp, tensor
from llmcli.estimate.experts import Experts, Mixture
from llmcli.estimate.facts import Blueprint, Layer
from llmcli.estimate.families.kinds import Kinds, kinds_of, periodic
from llmcli.estimate.families.self_attention import SelfAttention, self_attention
from llmcli.estimate.families.stack import layers_of, stack
from llmcli.estimate.families.state_space import (
    HYBRID_MAMBA,
    HYBRID_MAMBA2,
    Mamba,
    Mamba2,
    mamba2_of,
    mamba_of,
)
from llmcli.estimate.layers import FULL_ATTENTION, HYBRID, LINEAR_ATTENTION

_KINDS = (LINEAR_ATTENTION, FULL_ATTENTION)
_GRANITE = Mixture(number=("num_local_experts",), width="intermediate_size")
_JAMBA = Mixture(number=("num_experts",), width="intermediate_size")


@dataclass(frozen=True, slots=True)
class Mixers:
    """The two mixers that a layer may have, on `hidden` channels."""

    hidden: int
    attention: SelfAttention
    space: Mamba | Mamba2

    def layer(self, kind: str, rest: Count) -> Layer:
        """A layer of this kind: its mixer, two norms, and the `rest` of its parameters."""
        rest += tensor(2, self.hidden)
        full, space = self.attention.count(self.hidden), self.space.count()
        if kind == FULL_ATTENTION:
            return Layer((self.attention.mixer(),), full + rest)
        if kind == HYBRID:
            return Layer((self.attention.mixer(kind=HYBRID), self.space.mixer(HYBRID)), full + space + rest)
        return Layer((self.space.mixer(),), space + rest)

    def stack(self, config: Config, kinds: Kinds, rests: Iterable[Count], intermediate: int) -> Blueprint:
        """The decoder with layers of these kinds. rests: what each has besides mixer and norms."""
        layers = layers_of(zip(kinds, rests, strict=True), lambda parts: self.layer(*parts))
        return stack(config, layers, intermediate, self.attention)


def bamba(config: Config) -> Blueprint:
    """BambaForCausalLM: attention in the layers that attn_layer_indices lists. Raises ModelError for what is wrong."""
    number, width = layer_number(config), config.needed(keys.INTERMEDIATE)
    chosen = set(config.counts("attn_layer_indices") or ())
    kinds = tuple(FULL_ATTENTION if index in chosen else LINEAR_ATTENTION for index in range(number))
    mixers = _mixers(config, mamba2_of(config, HYBRID_MAMBA2))
    mlp = gated_mlp(mixers.hidden, width, bias=config.flag("mlp_bias"))
    return mixers.stack(config, kinds, (mlp,) * number, width)


def falcon_h1(config: Config) -> Blueprint:
    """FalconH1ForCausalLM: attention and state space side by side in every layer. Raises ModelError."""
    number, width = layer_number(config), config.needed(keys.INTERMEDIATE)
    names = replace(
        HYBRID_MAMBA2, inner="mamba_d_ssm", flags=("mamba_proj_bias", "projectors_bias", ("mamba_conv_bias",))
    )
    mixers = _mixers(config, mamba2_of(config, names, normed=config.flag("mamba_rms_norm")))
    mlp = gated_mlp(mixers.hidden, width, bias=config.flag("mlp_bias"))
    return mixers.stack(config, (HYBRID,) * number, (mlp,) * number, width)


def granite(config: Config) -> Blueprint:
    """GraniteMoeHybridForCausalLM: experts, if any, beside an MLP in every layer. Raises ModelError."""
    number = layer_number(config)
    kinds = kinds_of(config, number, _KINDS, lambda _index: LINEAR_ATTENTION)
    mixers = _mixers(config, mamba2_of(config, HYBRID_MAMBA2))
    shared = config.needed(("shared_intermediate_size",))
    mlp = joint_mlp(mixers.hidden, shared)
    mixture = _GRANITE.experts(config) if config.count(_GRANITE.number, least=0) else None
    count = mlp + (mixture.count(mixers.hidden) if mixture else NOTHING)
    return mixers.stack(config, kinds, (count,) * number, shared + (mixture.token_width if mixture else 0))


def jamba(config: Config) -> Blueprint:
    """JambaForCausalLM: attention and experts each in every few layers. Raises ModelError for what is wrong."""
    number, width = layer_number(config), config.needed(keys.INTERMEDIATE)
    at = periodic(config, "attn_layer_period", "attn_layer_offset", FULL_ATTENTION)
    attention = self_attention(config)
    mixers = Mixers(config.needed(keys.HIDDEN), attention, mamba_of(config, HYBRID_MAMBA, normed=True))
    experts = _jamba_experts(config, number)
    mlps = {one: one.count(mixers.hidden) if one else gated_mlp(mixers.hidden, width) for one in set(experts)}
    widest = max(one.token_width if one else width for one in mlps)
    return mixers.stack(config, tuple(at(index) for index in range(number)), [mlps[one] for one in experts], widest)


def _mixers(config: Config, space: Mamba2) -> Mixers:
    return Mixers(space.hidden, self_attention(config, bias="attention_bias"), space)


def _jamba_experts(config: Config, layers: int) -> list[Experts | None]:
    """The experts of the layers that have more than one."""
    mixture = _JAMBA.experts(config) if config.needed(_JAMBA.number) > 1 else None
    period, offset = config.needed(("expert_layer_period",)), config.size("expert_layer_offset")
    return [mixture if index % period == offset else None for index in range(layers)]


BUILDERS = {"bamba": bamba, "falcon_h1": falcon_h1, "granitemoehybrid": granite, "jamba": jamba}
