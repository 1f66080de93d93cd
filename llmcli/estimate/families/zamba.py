"""State spaces with a transformer block that several layers share: Zamba, Zamba2.

A hybrid layer has a state space and a cache of its own; the block before it, attention on twice the channels and an
MLP, is one of a few whose weights are there once. Read in transformers 5.24: tie_word_embeddings ties the blocks too,
so that without it every layer has its own; bitsandbytes leaves tied weights alone, so that the linear layers of a block
are quantized only where one layer has it for itself. int4 takes them all.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from llmcli.estimate import config as keys
from llmcli.estimate.config import Config, layer_number
from llmcli.estimate.counts import NOTHING, Count, gated_mlp, linear, tensor
from llmcli.estimate.facts import Blueprint, Layer
from llmcli.estimate.families.kinds import Kinds, kinds_of, periodic
from llmcli.estimate.families.self_attention import SelfAttention, self_attention
from llmcli.estimate.families.stack import stack
from llmcli.estimate.families.state_space import HYBRID_MAMBA, Mamba, Mamba2, Mamba2Keys, mamba2_of, mamba_of
from llmcli.estimate.layers import HYBRID, LINEAR_ATTENTION

_KINDS = (LINEAR_ATTENTION, HYBRID)
_MAMBA2 = Mamba2Keys(
    heads="n_mamba_heads",
    head_dim=None,
    groups=("mamba_ngroups",),
    state="mamba_d_state",
    kernel=("mamba_d_conv",),
    flags=("add_bias_linear", "add_bias_linear", True),
    expand="mamba_expand",
)
_ZAMBA2_KINDS = (
    LINEAR_ATTENTION,
    *((*(LINEAR_ATTENTION,) * 5, HYBRID) * 7),
    *(*(LINEAR_ATTENTION,) * 4, HYBRID),
    *(*(LINEAR_ATTENTION,) * 3, HYBRID),
    *(LINEAR_ATTENTION,) * 2,
)


@dataclass(frozen=True, slots=True)
class SharedBlock:
    """The transformer block before hybrid layers. number: of different ones, taken in turn.

    count: parameters of one; adapters: those that every hybrid layer has of its own in it.
    """

    attention: SelfAttention
    number: int
    count: Count
    adapters: Count = NOTHING

    def total(self, uses: int, *, shared: bool) -> Count:
        """Parameters of all blocks, where `uses` layers take one each; shared: layers with the same one share it."""
        total = NOTHING
        for times in Counter(index % self.number for index in range(uses)).values():
            block = self.count + self.adapters * times
            if not shared:
                total += block * times
            else:
                total += block if times == 1 else Count(total=block.total, even=block.even)
        return total


def zamba(config: Config) -> Blueprint:
    """ZambaForCausalLM: Mamba in several heads, and one shared block. Raises ModelError for what is wrong."""
    mixer, width = mamba_of(config, HYBRID_MAMBA), config.needed(keys.INTERMEDIATE)
    at = periodic(config, "attn_layer_period", "attn_layer_offset", HYBRID)
    kinds = kinds_of(config, layer_number(config), _KINDS, lambda index: _zamba_kind(index, at))
    heads = config.needed(("n_mamba_heads",))
    if mixer.inner % heads:
        raise config.wrong("n_mamba_heads", heads, f"no divisor of the {mixer.inner} channels of the state space")
    space = mixer.frame() + tensor(mixer.inner, 2 * (mixer.rank + mixer.state) + 1)
    wide = config.count(("attention_hidden_size",)) or 2 * mixer.hidden
    attention = self_attention(config, head_dim=_head_dim(config, mixer.hidden))
    count = attention.count(wide, output=mixer.hidden) + gated_mlp(mixer.hidden, width) + tensor(wide + mixer.hidden)
    around = _around(config, kinds, SharedBlock(attention, 1, count))
    return stack(config, _layers(kinds, mixer, space, attention), width, attention, around=around)


def zamba2(config: Config) -> Blueprint:
    """Zamba2ForCausalLM: Mamba-2, and shared blocks with adapters. Raises ModelError for what is wrong."""
    mixer, kinds = mamba2_of(config, _MAMBA2), _zamba2_kinds(config)
    width = config.count(keys.INTERMEDIATE) or 4 * mixer.hidden
    block = _zamba2_block(config, mixer.hidden, width)
    layers = _layers(kinds, mixer, mixer.count(), block.attention)
    return stack(config, layers, width, block.attention, around=_around(config, kinds, block))


def _around(config: Config, kinds: Kinds, block: SharedBlock) -> Count:
    return block.total(kinds.count(HYBRID), shared=config.flag("tie_word_embeddings"))


def _zamba2_kinds(config: Config) -> Kinds:
    """What layers_block_type names, else those of the 54 layers of Zamba2-2.7B."""
    number = layer_number(config)
    if number != len(_ZAMBA2_KINDS) and config.absent(("layer_types", "layers_block_type")):
        raise config.wrong("num_hidden_layers", number, f"not {len(_ZAMBA2_KINDS)}, and layers_block_type is missing")
    return kinds_of(config, number, _KINDS, _ZAMBA2_KINDS.__getitem__)


def _zamba2_block(config: Config, hidden: int, width: int) -> SharedBlock:
    """The shared blocks, on twice the channels of a layer: its own and those of the embedding."""
    wide, rank, bias = 2 * hidden, config.needed(("adapter_rank",)), config.flag("add_bias_linear")
    attention = self_attention(config, head_dim=_head_dim(config, hidden))
    mlp = gated_mlp(hidden, width, bias=bias)
    adapters = linear(hidden, rank) + linear(rank, 2 * width)
    if config.flag("use_shared_attention_adapter"):
        adapters += (linear(wide, rank) + linear(rank, wide)) * 3
    count = attention.count(wide, output=hidden) + mlp + tensor(wide + hidden)
    return SharedBlock(attention, config.needed(("num_mem_blocks",)), count, adapters)


def _layers(kinds: Kinds, mixer: Mamba | Mamba2, space: Count, attention: SelfAttention) -> list[Layer]:
    """The layers of these kinds, shared blocks apart. space: parameters of a state space."""
    plain = Layer((mixer.mixer(),), space + tensor(mixer.hidden))
    joint = linear(mixer.hidden, mixer.hidden)
    hybrid = Layer((attention.mixer(kind=HYBRID), mixer.mixer(HYBRID)), plain.count + joint)
    return [hybrid if kind == HYBRID else plain for kind in kinds]


def _head_dim(config: Config, hidden: int) -> int:
    """Channels of a head: attention_head_dim, else twice the layer's channels by the number of heads."""
    return config.count(("attention_head_dim",)) or max(1, 2 * hidden // config.needed(keys.HEADS))


def _zamba_kind(index: int, at: Callable[[int], str]) -> str:
    """The first hybrid layer is the third; the period starts after it."""
    if index < 3:
        return HYBRID if index == 2 else LINEAR_ATTENTION
    return at(index - 3)


BUILDERS = {"zamba": zamba, "zamba2": zamba2}
