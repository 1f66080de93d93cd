"""MiniMax-M3: keys and values of grouped heads, and in sparse layers the keys of an indexer beside them.

Read in transformers 5.24: MiniMaxM3VLTextConfig, MiniMaxM3VLAttention and MiniMaxM3VLSparseCacheLayer.
"""

from dataclasses import replace

from llmcli.errors import ModelError
from llmcli.estimate.config import Config, shown
from llmcli.estimate.counts import NOTHING, Count, gated_mlp, linear, tensor
from llmcli.estimate.experts import Mixture, in_all
from llmcli.estimate.facts import Attention, Blueprint, Layer
from llmcli.estimate.families import decoder
from llmcli.estimate.families.latent_attention import Indexer
from llmcli.estimate.layers import FULL_ATTENTION
from llmcli.estimate.sparse import by_type
from llmcli.estimate.windows import no_window

SPARSE = "minimax_m3_sparse"

_LEGACY = "sparse_attention_config"


def build(config: Config) -> Blueprint:
    """The decoder that `config` describes. Raises ModelError that names what is missing or wrong."""
    frame = decoder.build(config, _STYLE)
    number = len(frame.layers)
    indexed, experts = _indexed(config, number), _MIXTURE(config, number)
    indexer = _indexer(config) if any(indexed) else None
    dense = config.needed(("dense_intermediate_size",)) if None in experts else 0
    layers = []
    for layer, here, mixture in zip(frame.layers, indexed, experts, strict=True):
        mlp = mixture.count(frame.hidden) if mixture else gated_mlp(frame.hidden, dense)
        full = replace(layer, count=layer.count + mlp)
        layers.append(_with_indexer(full, indexer, frame.hidden) if here and indexer else full)
    width = max(dense, *(one.token_width for one in experts if one))
    return replace(frame, layers=tuple(layers), intermediate=width)


def _with_indexer(layer: Layer, indexer: Indexer, hidden: int) -> Layer:
    """The layer with one key more per token, which no head of queries shares with the attention's."""
    queries, keys = linear(hidden, indexer.heads * indexer.head_dim), linear(hidden, indexer.head_dim)
    attention = tuple(replace(mixer, kind=SPARSE) for mixer in layer.mixers if isinstance(mixer, Attention))
    index_keys = Attention(1, indexer.head_dim, 0, kind=SPARSE)
    return Layer((*attention, index_keys), layer.count + queries + keys + tensor(2, indexer.head_dim))


def _indexer(config: Config) -> Indexer:
    """The indexer: the older section's sizes come first."""
    legacy = config.section(_LEGACY) or Config(config.where, {})
    return Indexer(
        heads=legacy.count(("sparse_num_index_heads",)) or config.needed(("index_n_heads",)),
        head_dim=legacy.count(("sparse_index_dim",)) or config.needed(("index_head_dim",)),
    )


def _indexed(config: Config, layers: int) -> tuple[bool, ...]:
    """Which layers have an indexer: layer_types, else the older section's sparse_attention_freq, else none."""
    types = config.texts("layer_types", layers)
    if types is None:
        legacy = config.section(_LEGACY)
        listed = legacy.counts("sparse_attention_freq", layers) if legacy else None
        return tuple(one > 0 for one in listed) if listed else (False,) * layers
    for name in types:
        if name not in (SPARSE, FULL_ATTENTION):
            raise ModelError(
                f"{config.where}: layer_types has {shown(name)}, which is no kind of attention that MiniMax-M3 has",
                f"Known here: {SPARSE}, {FULL_ATTENTION}.",
            )
    return tuple(name == SPARSE for name in types)


def _sparse(config: Config, layers: int) -> tuple[bool, ...]:
    """The layers that moe_layer_freq lists with 1; all where there is no such list."""
    listed = config.counts("moe_layer_freq", layers)
    return in_all(config, layers) if listed is None else tuple(one > 0 for one in listed)


def _no_mlp(_config: Config, _shape: decoder.Shape, _index: int) -> Count:
    return NOTHING


_STYLE = decoder.Style(qk_norm="head", windows=no_window, mlp=_no_mlp)
_MIXTURE = Mixture(width="intermediate_size", shared_width="shared_intermediate_size", sparse=by_type(_sparse))
