"""Self-attention of the attention layers of a hybrid: its sizes, its parameters, and what it keeps of a token."""

from dataclasses import dataclass
from typing import Literal

from llmcli.estimate import config as keys
from llmcli.estimate.config import Config
from llmcli.estimate.counts import Count, linear, tensor
from llmcli.estimate.facts import Attention
from llmcli.estimate.families.heads import head_dim_of, kv_heads_of


@dataclass(frozen=True, slots=True)
class SelfAttention:
    """Attention with grouped heads. gated: the query projection makes a gate for the output as well.

    qk_norm: `head` one norm of head_dim for all heads, `heads` one per head. bias: all four projections have one.
    """

    heads: int
    kv_heads: int
    head_dim: int
    bias: bool = False
    gated: bool = False
    qk_norm: Literal["head", "heads"] | None = None

    def count(self, hidden: int, output: int | None = None) -> Count:
        """Its parameters on `hidden` channels; output: the channels that it gives, None: as many."""
        width, kv_width = self.heads * self.head_dim, self.kv_heads * self.head_dim
        queries = linear(hidden, width * (2 if self.gated else 1), bias=self.bias)
        others = linear(hidden, kv_width, bias=self.bias) * 2
        return queries + others + linear(width, output or hidden, bias=self.bias) + self._norms()

    def mixer(self, window: int | None = None, kind: str | None = None) -> Attention:
        """What a layer keeps."""
        return Attention(self.kv_heads, self.head_dim, self.head_dim, window=window, kind=kind)

    def _norms(self) -> Count:
        normed = {"head": 2, "heads": self.heads + self.kv_heads, None: 0}[self.qk_norm]
        return tensor(normed, self.head_dim)


def self_attention(
    config: Config,
    *,
    bias: str | None = None,
    gated: bool = False,
    qk_norm: Literal["head", "heads"] | None = None,
    head_dim: int | None = None,
) -> SelfAttention:
    """The attention that `config` describes. Raises ModelError that names what is missing or wrong.

    bias: the key that gives the projections one. head_dim: where the config says it in another way, that one.
    """
    heads = config.needed(keys.HEADS)
    return SelfAttention(
        heads=heads,
        kv_heads=kv_heads_of(config, heads),
        head_dim=head_dim or head_dim_of(config, config.needed(keys.HIDDEN), heads),
        bias=config.flag(bias) if bias else False,
        gated=gated,
        qk_norm=qk_norm,
    )
