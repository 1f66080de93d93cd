"""Decoders with multi-head latent attention, with and without an indexer.

Each row was read from the model's class in transformers 5.24 and is proved against it in the tests: the number of
parameters, the part of them that bitsandbytes quantizes, and the size of the KV cache. Layers for multi-token
prediction, which checkpoints hold beside the model, are no part of it.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from llmcli.estimate import config as keys
from llmcli.estimate import sparse
from llmcli.estimate.config import Config
from llmcli.estimate.counts import Count, linear, tensor
from llmcli.estimate.experts import SHARED, Experts, Mixture, SparseRule
from llmcli.estimate.facts import Blueprint
from llmcli.estimate.families import deepseek_v4, dots3, indexers, longcat, minimax_m3
from llmcli.estimate.families.latent_attention import VALUE_DIM, LatentShape
from llmcli.estimate.families.latent_decoder import LatentModel, LatentStyle, build

_FIRST_DENSE = "first_k_dense_replace"
_MIXTURE = Mixture(shared_number=SHARED, sparse=sparse.after(_FIRST_DENSE))


def _by_frequency(config: Config, layers: int) -> tuple[bool, ...]:
    """A.X: every moe_layer_freq-th layer from first_k_dense_replace on, both 1 where the config does not say."""
    first, every = config.size(_FIRST_DENSE, 1), config.count(("moe_layer_freq",)) or 1
    return tuple(index >= first and index % every == 0 for index in range(layers))


def _typed(otherwise: SparseRule) -> Mixture:
    """The mixture of types whose config can name the sparse layers."""
    return replace(_MIXTURE, sparse=sparse.by_type(otherwise))


def _norm_after_experts(_config: Config, model: LatentModel, _shape: LatentShape, experts: Experts | None) -> Count:
    """A.X K1: one more norm in sparse layers."""
    return tensor(model.hidden if experts else 0)


def _gated_queries(shape: LatentShape, hidden: int) -> Count:
    """A.X K2: one projection of two compressed queries makes the queries and the gates of the output."""
    width = shape.heads * (shape.key_dim + shape.value_dim)
    return shape.compressed_query(hidden) + linear(2 * shape.query_rank, width) + shape.rows(hidden)


def _gated_norms(config: Config, model: LatentModel, _shape: LatentShape, experts: Experts | None) -> Count:
    """A.X K2: a small gate beside the first norm, and beside the second one of sparse layers."""
    rank = config.needed(("gated_norm_rank",))
    gate = linear(model.hidden, rank) + linear(rank, model.hidden)
    return gate * (2 if experts else 1)


def _streams(config: Config, model: LatentModel, shape: LatentShape, _experts: Experts | None) -> Count:
    """HY-V4: gates and sinks of the attention, and two hyper-connections of hc_mult streams."""
    streams = config.needed(("hc_mult",))
    gates = linear(model.hidden, shape.heads * shape.value_dim) + tensor(shape.heads)
    return gates + tensor(2 * streams * (streams * model.hidden + 1) + 2) * 2


def _streams_head(config: Config, model: LatentModel) -> Count:
    """HY-V4: what joins the streams before the head."""
    streams = config.needed(("hc_mult",))
    return tensor(streams * (streams * model.hidden + 1) + 1)


_DEEPSEEK = LatentStyle(_MIXTURE)
_INDEXED = LatentStyle(_typed(sparse.after(_FIRST_DENSE)), query_rank_needed=True, indexers=indexers.in_all)

STYLES: Mapping[str, LatentStyle] = {
    "axk1": LatentStyle(_typed(_by_frequency), query_rank_needed=True, more=_norm_after_experts),
    "axk2": replace(_INDEXED, mixture=_typed(_by_frequency), attention=_gated_queries, more=_gated_norms),
    "deepseek_v2": LatentStyle(replace(_MIXTURE, shared_bias="mlp_bias"), mlp_bias="mlp_bias"),
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v32": _INDEXED,
    "glm4_moe_lite": LatentStyle(_typed(sparse.but_first(1))),
    "glm_moe_dsa": replace(_INDEXED, indexers=indexers.by_schedule),
    "hy_v4": replace(
        _INDEXED, mixture=_typed(sparse.but_first(1)), indexers=indexers.by_fours, more=_streams, around=_streams_head
    ),
    # DeepSeek-V3 under the name that its own code gives it: no model type of transformers, so without class defaults
    "kimi_k2": _DEEPSEEK,
    "minicpm3": LatentStyle(mlp_bias="mlp_bias"),
    "mistral4": _DEEPSEEK,
    "sarvam_mla": _DEEPSEEK,
    "youtu": LatentStyle(),
}


def _minicpm3(config: Config) -> Blueprint:
    """MiniCPM3: the width of values is that of a head where the config does not say it."""
    if config.count(VALUE_DIM) is None:
        width = config.needed(keys.HIDDEN) // config.needed(keys.HEADS)
        config = config.changed({VALUE_DIM[0]: width})
    return build(config, STYLES["minicpm3"])


BUILDERS = {model_type: partial(build, style=style) for model_type, style in STYLES.items()} | {
    "deepseek_v4": deepseek_v4.build,
    "dots3_note_text": dots3.build,
    "longcat_flash": longcat.build,
    "minicpm3": _minicpm3,
    "minimax_m3_vl_text": minimax_m3.build,
}
