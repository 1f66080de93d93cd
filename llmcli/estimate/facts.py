"""What the layers of a model keep of the tokens they have seen, whatever engine runs it.

A layer holds any number of these: none (an MLP or MoE layer of a hybrid, or one that reads another layer's cache), one,
or several (Falcon-H1 has attention and a state space side by side). Sizes are in elements, for one sequence.
"""

from dataclasses import dataclass, field

from llmcli.estimate.counts import NOTHING, Count
from llmcli.estimate.layers import LINEAR_ATTENTION


@dataclass(frozen=True, slots=True)
class Attention:
    """Keys and values of every token, or of those in a window.

    window: the tokens that a query can see, itself included; None: all. chunked: the window is a chunk with fixed
    borders. cached_heads: the KV heads that transformers caches, where it broadcasts them before it does.
    kind: transformers' layer type, where it is another than full, sliding or chunked attention.
    """

    kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None = None
    chunked: bool = False
    cached_heads: int | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention: one compressed row per token instead of keys and values.

    rank: kv_lora_rank; rope_dim: the part with positions; index_dim: keys of a sparse-attention indexer, 0 where this
    layer has none of its own; float_index: transformers keeps them in float32. heads, nope_dim, value_dim: what a row
    expands to.
    """

    rank: int
    rope_dim: int
    heads: int
    nope_dim: int
    value_dim: int
    index_dim: int = 0
    float_index: bool = False
    window: int | None = None
    kind: str | None = None

    @property
    def expanded(self) -> int:
        """Elements that one token's row becomes while its layer runs: keys and values of all heads."""
        return self.heads * (self.nope_dim + self.rope_dim + self.value_dim)


@dataclass(frozen=True, slots=True)
class Compressed:
    """Rows that stand for `stride` tokens each (DeepSeek-V4).

    row_dim: elements of a row, the indexer's key included. pending_dim: elements kept of every token whose row is not
    complete. overlap: elements of the last complete row's tokens that the next row is made of as well, and as many
    weights of them. kind: transformers' layer type.
    """

    stride: int
    row_dim: int
    pending_dim: int
    overlap: int = 0
    kind: str = "compressed_attention"


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A state of fixed size, whatever the length.

    conv_channels × conv_width: the last inputs of a convolution, the current one included; state: the recurrent state;
    shift: earlier inputs that are kept apart from those (RWKV's token shift, RecurrentGemma's convolution).
    float_state, float_conv: transformers keeps `state`, or the convolution's inputs, in float32 whatever the model runs
    in. kind: transformers' layer type; in a layer that has attention as well, the same as the attention's.
    """

    conv_channels: int = 0
    conv_width: int = 0
    state: int = 0
    shift: int = 0
    float_state: bool = True
    float_conv: bool = False
    kind: str = LINEAR_ATTENTION


@dataclass(frozen=True, slots=True)
class CrossAttention:
    """Keys and values of what another part of the model has encoded: fixed once that has been read."""

    kv_heads: int
    head_dim: int
    tokens: int


Mixer = Attention | Latent | Compressed | Recurrence | CrossAttention


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of the decoder: what it keeps, and its parameters."""

    mixers: tuple[Mixer, ...]
    count: Count = NOTHING


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A decoder as its config describes it.

    outside: parameters around the layers (embedding, final norm, head). heads, kv_heads, head_dim: of its first
    attention layer, 0 where it has none. hidden, intermediate: the widths of its channels and of its MLP (what a token
    passes through, so of the experts that it uses). inexact: why the sizes are no more than near the truth or above it.
    notes: what a reader should know of them. vision: the towers beside it, None where they are not known.
    """

    layers: tuple[Layer, ...]
    outside: Count
    hidden: int
    intermediate: int
    vocabulary: int
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    inexact: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    vision: Count | None = NOTHING
