"""Inkling: attention with short convolutions before and after it, mostly in windows, and experts.

Read in transformers 5.24, InklingForCausalLM: besides keys and values a layer keeps the last inputs of four
convolutions (over keys, values, and what attention and MLP give), which always run in float32.
"""

from dataclasses import dataclass

from llmcli.estimate import config as keys
from llmcli.estimate.config import Config, layer_number
from llmcli.estimate.counts import Count, gated_mlp, linear, routed_experts, tensor
from llmcli.estimate.experts import Experts, LayerExperts, Mixture
from llmcli.estimate.facts import Blueprint, Layer, Recurrence
from llmcli.estimate.families.heads import kv_heads_of
from llmcli.estimate.families.kinds import Kinds, kinds_of
from llmcli.estimate.families.self_attention import SelfAttention, self_attention
from llmcli.estimate.families.stack import layers_of, stack
from llmcli.estimate.layers import HYBRID, HYBRID_SLIDING
from llmcli.estimate.sparse import after, by_type

_WINDOW = ("sliding_window_size", "sliding_window")
_KERNEL = ("sconv_kernel_size", "conv_kernel_size")


@dataclass(frozen=True, slots=True)
class Inkling:
    """The parts of one kind of layer. seen: the tokens that attention sees, None: all.

    extent, relative: distances and channels of the relative positions. kernel: the width of the convolutions.
    """

    attention: SelfAttention
    kind: str
    seen: int | None
    extent: int
    kernel: int
    relative: int

    def layer(self, hidden: int, mlp: Count) -> Layer:
        """The layer with its MLP."""
        channels = 2 * self.attention.kv_heads * self.attention.head_dim + 2 * hidden
        heads = self.attention.heads
        relative = linear(hidden, heads * self.relative) + tensor(self.relative, self.extent)
        count = self.attention.count(hidden) + relative + tensor(channels, self.kernel) + tensor(2, hidden) + mlp
        state = Recurrence(channels, self.kernel, float_conv=True, kind=self.kind)
        return Layer((self.attention.mixer(self.seen, self.kind), state), count)


def inkling(config: Config) -> Blueprint:
    """InklingForCausalLM. Raises ModelError that names what is missing or wrong."""
    hidden, number = config.needed(keys.HIDDEN), layer_number(config)
    kinds = _kinds(config, number)
    made = {HYBRID: _full(config), HYBRID_SLIDING: _sliding(config)}
    mlp_width, experts = _experts(config, number)
    mlps = {one: _sparse(one, hidden) if one else gated_mlp(hidden, mlp_width) + tensor(1) for one in set(experts)}
    parts = zip(kinds, (mlps[one] for one in experts), strict=True)
    layers = layers_of(parts, lambda part: made[part[0]].layer(hidden, part[1]))
    width = max(mlp_width if None in experts else 0, *(one.token_width if one else 0 for one in experts))
    return stack(config, layers, width, made[kinds[0]].attention, own_head=True, around=tensor(hidden))


def _kinds(config: Config, number: int) -> Kinds:
    local = config.counts("local_layer_ids")
    chosen = {index for index in range(number) if (index + 1) % 6} if local is None else set(local)
    return kinds_of(
        config, number, (HYBRID, HYBRID_SLIDING), lambda index: HYBRID_SLIDING if index in chosen else HYBRID
    )


def _full(config: Config) -> Inkling:
    attention = self_attention(config, qk_norm="head")
    extent, relative = config.needed(("rel_extent",)), config.needed(("d_rel",))
    return Inkling(attention, HYBRID, None, extent, config.needed(_KERNEL), relative)


def _sliding(config: Config) -> Inkling:
    heads, window = config.needed(("swa_num_attention_heads",)), config.needed(_WINDOW)
    kv_heads = kv_heads_of(config, heads, ("swa_num_key_value_heads",))
    attention = SelfAttention(heads, kv_heads, config.needed(("swa_head_dim",)), qk_norm="head")
    return Inkling(attention, HYBRID_SLIDING, window, window, config.needed(_KERNEL), config.needed(("d_rel",)))


def _experts(config: Config, number: int) -> tuple[int, LayerExperts]:
    """The channels inside a dense MLP, and the experts of each layer; checkpoints name both widths in another way."""
    dense = config.count(("dense_intermediate_size",))
    mixture = Mixture(
        number=("n_routed_experts", "num_local_experts"),
        width="intermediate_size" if dense else "moe_intermediate_size",
        shared_number=("n_shared_experts",),
        sparse=by_type(after("dense_mlp_idx")),
    )
    return dense or config.needed(keys.INTERMEDIATE), mixture(config, number)


def _sparse(experts: Experts, hidden: int) -> Count:
    """Routed and shared experts, all of them 3-D parameters, and a router that knows both, with a scale."""
    routed = routed_experts(experts.number, experts.used, gated_mlp(hidden, experts.width).total)
    shared = tensor(gated_mlp(hidden, experts.shared).total)
    return routed + shared + tensor(experts.number + experts.shared // experts.width, hidden) + tensor(1)


BUILDERS = {"inkling_text": inkling}
