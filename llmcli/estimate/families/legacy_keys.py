"""Values that follow from the keys of old configs."""

from collections.abc import Mapping
from typing import Any

from llmcli.estimate import config as keys
from llmcli.estimate.config import Config

_TIED = "tie_word_embeddings"


def falcon(config: Config) -> Mapping[str, Any]:
    """RefinedWeb: KV heads of their own mean the newer architecture; else one KV head, where multi_query says so."""
    newer = config.values.get("num_kv_heads") is not None
    said = config.values.get("new_decoder_architecture")
    return {"new_decoder_architecture": newer if said is None else said}


def phi(config: Config) -> Mapping[str, Any]:
    """Phi before its port: four times the hidden size where n_inner is null, the head never tied."""
    hidden = config.needed(keys.HIDDEN)
    return {
        "intermediate_size": config.count(("intermediate_size",)) or 4 * hidden,
        _TIED: config.values.get(_TIED) or False,
    }


def chatglm(config: Config) -> Mapping[str, Any]:
    """ChatGLM2 and later: KV groups count only where multi_query_attention is true; biases unless switched off."""
    grouped = config.flag("multi_query_attention")
    heads = config.needed(keys.HEADS)
    groups = config.count(("multi_query_group_num",)) if grouped else heads
    return {"num_key_value_heads": groups or heads, _TIED: config.values.get(_TIED) or False}


def half_intermediate(config: Config) -> Mapping[str, Any]:
    """Qwen 1: each of the two projections of its MLP is half as wide as intermediate_size."""
    return {"intermediate_size": max(1, config.needed(keys.INTERMEDIATE) // 2)}


def tied_unless_said(config: Config) -> Mapping[str, Any]:
    """Classes whose head is the embedding unless the config says otherwise."""
    said = config.values.get(_TIED)
    return {_TIED: True if said is None else said}


def jais(config: Config) -> Mapping[str, Any]:
    """Jais: a gated MLP of n_inner channels, and no positions in its embedding; the head is the embedding."""
    hidden = config.needed(keys.HIDDEN)
    return {"intermediate_size": config.count(("n_inner",)) or 4 * hidden, **tied_unless_said(config)}


def plamo(config: Config) -> Mapping[str, Any]:
    """PLaMo: n_shared_head query heads for each KV head."""
    heads, shared = config.needed(keys.HEADS), config.count(("n_shared_head",)) or 1
    return {"num_key_value_heads": config.count(keys.KV_HEADS) or -(-heads // shared)}
