"""Short convolutions with attention in some layers: LFM2, LFM2-MoE, LFM3."""

from dataclasses import dataclass

from llmcli.errors import ModelError
from llmcli.estimate import config as keys
from llmcli.estimate.config import Config, layer_number
from llmcli.estimate.counts import NOTHING, Count, gated_mlp, linear, tensor
from llmcli.estimate.experts import Mixture
from llmcli.estimate.facts import Blueprint, Layer, Recurrence
from llmcli.estimate.families.kinds import Kinds, kinds_of
from llmcli.estimate.families.self_attention import SelfAttention, self_attention
from llmcli.estimate.families.stack import layers_of, stack
from llmcli.estimate.layers import CONV, FULL_ATTENTION, SLIDING_ATTENTION
from llmcli.estimate.sparse import after

_LAYERS = ("layer_types", "layers_block_type", "full_attn_idxs")
_MIXTURE = Mixture(sparse=after("num_dense_layers"))


@dataclass(frozen=True, slots=True)
class ShortConv:
    """Lfm2ShortConv: a gated convolution over the channels of a layer. kernel: its width."""

    hidden: int
    kernel: int
    bias: bool

    def count(self) -> Count:
        """Its parameters."""
        projections = linear(self.hidden, 3 * self.hidden, bias=self.bias) + linear(
            self.hidden, self.hidden, bias=self.bias
        )
        return projections + tensor(self.hidden, self.kernel + (1 if self.bias else 0))

    def mixer(self) -> Recurrence:
        """What a layer keeps: the last inputs of its convolution, and no other state."""
        return Recurrence(self.hidden, self.kernel, kind=CONV)


def lfm2(config: Config) -> Blueprint:
    """Lfm2ForCausalLM. Raises ModelError that names what is missing or wrong."""
    number, width = layer_number(config), _lfm2_width(config)
    kinds = _lfm2_kinds(config, number)
    mlp = gated_mlp(config.needed(keys.HIDDEN), width)
    return _decoder(_tied(config), kinds, _lfm2_attention(config), (mlp,) * number, width)


def lfm2_moe(config: Config) -> Blueprint:
    """Lfm2MoeForCausalLM: dense layers first, then experts. Raises ModelError that names what is missing or wrong."""
    number, hidden = layer_number(config), config.needed(keys.HIDDEN)
    if config.raw(_LAYERS)[1] is None:
        raise ModelError(f"{config.where}: {_LAYERS[0]} is missing", "It says which layers have attention.")
    experts = _MIXTURE(config, number)
    dense = config.needed(keys.INTERMEDIATE) if None in experts else 0
    each = {one: one.count(hidden) if one else gated_mlp(hidden, dense) for one in set(experts)}
    mlps = tuple(each[one] for one in experts)
    width = max(dense, *(one.token_width if one else 0 for one in experts))
    return _decoder(_tied(config), _lfm2_kinds(config, number), _lfm2_attention(config), mlps, width)


def lfm3(config: Config) -> Blueprint:
    """Lfm3ForCausalLM: attention in windows as well. Raises ModelError that names what is missing or wrong."""
    number, width = layer_number(config), config.needed(keys.INTERMEDIATE)
    kinds = kinds_of(config, number, (CONV, FULL_ATTENTION, SLIDING_ATTENTION), _lfm3_kind)
    attention = self_attention(config, bias="attention_bias", qk_norm="head")
    hidden = config.needed(keys.HIDDEN)
    mlp = gated_mlp(hidden, width) + (tensor(2, hidden) if config.flag("use_sandwich_norm") else NOTHING)
    gate = linear(hidden, attention.heads) if config.flag("use_attention_gate") else NOTHING
    gated = mlp + gate
    mlps = tuple(mlp if kind == CONV else gated for kind in kinds)
    return _decoder(config, kinds, attention, mlps, width)


def _decoder(config: Config, kinds: Kinds, attention: SelfAttention, mlps: tuple[Count, ...], width: int) -> Blueprint:
    """The layers of these kinds, each with two norms and its MLP."""
    hidden = config.needed(keys.HIDDEN)
    conv = ShortConv(hidden, config.needed(("conv_L_cache",)), config.flag("conv_bias"))
    window = config.needed(("sliding_window",)) if SLIDING_ATTENTION in kinds else None

    def layer(parts: tuple[str, Count]) -> Layer:
        kind, mlp = parts
        rest = mlp + tensor(2, hidden)
        if kind == CONV:
            return Layer((conv.mixer(),), conv.count() + rest)
        seen = window if kind == SLIDING_ATTENTION else None
        return Layer((attention.mixer(seen),), attention.count(hidden) + rest)

    layers = layers_of(zip(kinds, mlps, strict=True), layer)
    return stack(config, layers, width, attention)


def _lfm2_kinds(config: Config, number: int) -> Kinds:
    """What layer_types names, else attention in the layers of full_attn_idxs, which are all where there is no list."""
    chosen = config.counts("full_attn_idxs")
    at = set(range(number) if chosen is None else chosen)
    return kinds_of(config, number, (CONV, FULL_ATTENTION), lambda index: FULL_ATTENTION if index in at else CONV)


def _lfm2_attention(config: Config) -> SelfAttention:
    return self_attention(config, qk_norm="head")


def _lfm2_width(config: Config) -> int:
    """The channels inside the MLP: two thirds of what the config says, times a factor, rounded up."""
    width = config.needed(("block_ff_dim", *keys.INTERMEDIATE))
    if not config.flag("block_auto_adjust_ff_dim"):
        return width
    width = int(2 * width / 3)
    factor = config.number(("block_ffn_dim_multiplier",))
    if factor is None:
        return width
    multiple = config.needed(("block_multiple_of",))
    return -(-int(factor * width) // multiple) * multiple


def _lfm3_kind(index: int) -> str:
    if index % 4 == 2:
        return FULL_ATTENTION
    return SLIDING_ATTENTION if index % 4 == 0 and index > 0 else CONV


def _tied(config: Config) -> Config:
    """The config with tie_embedding, an older name, in place of tie_word_embeddings."""
    if "tie_embedding" not in config.values:
        return config
    return config.changed({"tie_word_embeddings": config.values["tie_embedding"]})


BUILDERS = {"lfm2": lfm2, "lfm2_moe": lfm2_moe, "lfm3": lfm3}
