"""Multi-head latent attention: its sizes, its parameters, and what it keeps of a token.

Read in transformers 5.24, DeepseekV3Attention and its relatives: the cache holds the compressed row and the part with
positions (`expand_kv` makes keys and values of them in every forward). An indexer (DeepseekV32Indexer) picks the tokens
that a query looks at; it keeps one key per token.
"""

from dataclasses import dataclass

from llmcli.estimate import config as keys
from llmcli.estimate.config import Config
from llmcli.estimate.counts import NOTHING, Count, linear, tensor
from llmcli.estimate.facts import Latent

QUERY_RANK = ("q_lora_rank",)
RANK = ("kv_lora_rank",)
NOPE_DIM = ("qk_nope_head_dim",)
ROPE_DIM = ("qk_rope_head_dim",)
VALUE_DIM = ("v_head_dim",)


@dataclass(frozen=True, slots=True)
class Indexer:
    """The indexer of a layer: heads of head_dim channels for queries, one key of head_dim channels per token."""

    heads: int
    head_dim: int

    def count(self, hidden: int, query_rank: int) -> Count:
        """Its parameters. query_rank: the channels of the compressed query that it reads."""
        queries = linear(query_rank, self.heads * self.head_dim)
        keys_ = linear(hidden, self.head_dim) + tensor(2, self.head_dim)
        return queries + keys_ + linear(hidden, self.heads)


@dataclass(frozen=True, slots=True)
class LatentShape:
    """The attention of one layer. query_rank: channels that the query is compressed to, 0 where it is not.

    rank: kv_lora_rank. nope_dim, rope_dim: channels of a head's key without and with positions. value_dim: of a head's
    value. bias: whether the projections from and to the layer's channels have one.
    """

    heads: int
    query_rank: int
    rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    bias: bool = False

    @property
    def key_dim(self) -> int:
        """Channels of a head's key and query."""
        return self.nope_dim + self.rope_dim

    def queries(self, hidden: int) -> Count:
        """Parameters that make the queries."""
        width = self.heads * self.key_dim
        if not self.query_rank:
            return linear(hidden, width)
        return self.compressed_query(hidden) + linear(self.query_rank, width)

    def compressed_query(self, hidden: int) -> Count:
        """Parameters of the compression of the query, and of its norm."""
        return linear(hidden, self.query_rank, bias=self.bias) + tensor(self.query_rank)

    def rows(self, hidden: int) -> Count:
        """Parameters that make the compressed rows, those that expand them, and the output's."""
        compression = linear(hidden, self.rank + self.rope_dim, bias=self.bias) + tensor(self.rank)
        expansion = linear(self.rank, self.heads * (self.nope_dim + self.value_dim))
        return compression + expansion + linear(self.heads * self.value_dim, hidden, bias=self.bias)

    def count(self, hidden: int, indexer: Indexer | None = None) -> Count:
        """Parameters of the whole attention."""
        indexing = indexer.count(hidden, self.query_rank) if indexer else NOTHING
        return self.queries(hidden) + self.rows(hidden) + indexing

    def mixer(self, indexer: Indexer | None = None, window: int | None = None, kind: str | None = None) -> Latent:
        """What a layer keeps."""
        return Latent(
            rank=self.rank,
            rope_dim=self.rope_dim,
            heads=self.heads,
            nope_dim=self.nope_dim,
            value_dim=self.value_dim,
            index_dim=indexer.head_dim if indexer else 0,
            window=window,
            kind=kind,
        )


def latent_shape(config: Config, *, query_rank_needed: bool = False) -> LatentShape:
    """The attention that `config` describes. Raises ModelError that names what is missing or wrong.

    query_rank_needed: the model type has no attention without a compressed query.
    """
    heads = config.needed(keys.HEADS)
    query_rank = config.needed(QUERY_RANK) if query_rank_needed else config.count(QUERY_RANK) or 0
    return LatentShape(
        heads=heads,
        query_rank=query_rank,
        rank=config.needed(RANK),
        nope_dim=config.needed(NOPE_DIM),
        rope_dim=config.needed(ROPE_DIM),
        value_dim=config.needed(VALUE_DIM),
        bias=config.flag("attention_bias"),
    )


def indexer_of(config: Config) -> Indexer:
    """The indexer that `config` describes. Raises ModelError that names what is missing or wrong."""
    return Indexer(config.needed(("index_n_heads",)), config.needed(("index_head_dim",)))
