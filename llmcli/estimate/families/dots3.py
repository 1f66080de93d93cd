"""dots3-note: sliding layers of one shape of latent attention, indexed or full layers of another.

Read in transformers 5.24: Dots3NoteTextConfig, which names the shape of sliding layers by keys with `swa_` before them
or by layer in per_layer_config, and Dots3NoteTextAttention. Dots3NoteTextModel rotates the indexer's keys in float32,
and there they stay.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from llmcli.errors import ModelError
from llmcli.estimate import config as keys
from llmcli.estimate.config import Config, layer_number, shown
from llmcli.estimate.counts import Count, gated_mlp, linear, tensor
from llmcli.estimate.experts import SHARED, Experts, Mixture
from llmcli.estimate.facts import Blueprint, Latent, Layer
from llmcli.estimate.families.latent_attention import LatentShape, indexer_of, latent_shape
from llmcli.estimate.families.latent_decoder import LatentModel, blueprint, latent_model
from llmcli.estimate.layers import FULL_ATTENTION, INDEXED_ATTENTION, SLIDING_ATTENTION
from llmcli.estimate.sparse import by_type

_TYPES = (FULL_ATTENTION, SLIDING_ATTENTION, INDEXED_ATTENTION)
_BY_LAYER = "per_layer_config"
_SLIDING = {
    "num_attention_heads": 64,
    "q_lora_rank": 1024,
    "kv_lora_rank": 1024,
    "qk_nope_head_dim": 192,
    "v_head_dim": 128,
}
_SLIDING_HEAD_DIM = 256
_WINDOW = 512


def build(config: Config) -> Blueprint:
    """The decoder that `config` describes. Raises ModelError that names what is missing or wrong."""
    number = layer_number(config)
    types = _types(config, number)
    shapes = _shapes(config, types)
    model = latent_model(config, _MIXTURE(_with_shared_width(config), number))
    kinds = list(zip(shapes, types, model.experts, strict=True))
    made = {
        (shape, kind, experts): Layer(
            (_mixer(config, shape, kind),), _count(config, shape, kind) + _mlp(model, experts)
        )
        for shape, kind, experts in set(kinds)
    }
    layers = tuple(made[kind] for kind in kinds)
    return blueprint(config, model, latent_shape(config, query_rank_needed=True), layers)


def _mixer(config: Config, shape: LatentShape, kind: str) -> Latent:
    if kind == SLIDING_ATTENTION:
        return shape.mixer(window=config.count(("sliding_window", "sliding_window_size")) or _WINDOW, kind=kind)
    if kind == FULL_ATTENTION:
        return shape.mixer(kind=kind)
    return replace(shape.mixer(indexer_of(config), kind=kind), float_index=True)


def _count(config: Config, shape: LatentShape, kind: str) -> Count:
    """Parameters of the attention: a norm of the part with positions and a gate per head are its own."""
    hidden = config.needed(keys.HIDDEN)
    indexer = indexer_of(config) if kind == INDEXED_ATTENTION else None
    return shape.count(hidden, indexer) + tensor(shape.rope_dim) + linear(hidden, shape.heads)


def _mlp(model: LatentModel, experts: Experts | None) -> Count:
    """Parameters of the MLP or experts, and of the layer's norms."""
    parts = experts.count(model.hidden) if experts else gated_mlp(model.hidden, model.intermediate)
    return parts + tensor(2, model.hidden)


def _types(config: Config, layers: int) -> tuple[str, ...]:
    """The type of every layer; use_dsa says whether those that do not slide are indexed."""
    named = config.texts("layer_types", layers)
    dsa = config.flag("use_dsa") if "use_dsa" in config.values else None if _BY_LAYER in config.values else True
    if named is None:
        slides = config.flag("use_sliding_window") if "use_sliding_window" in config.values else True
        named = tuple(
            FULL_ATTENTION if not slides or index < 2 or index % 4 == 1 else SLIDING_ATTENTION
            for index in range(layers)
        )
        dsa = dsa is not False
    for name in named:
        if name not in _TYPES:
            raise ModelError(
                f"{config.where}: layer_types has {shown(name)}, which is no kind of attention that dots3_note has",
                f"Known here: {', '.join(_TYPES)}.",
            )
    if dsa is None:
        return named
    other = INDEXED_ATTENTION if dsa else FULL_ATTENTION
    return tuple(name if name == SLIDING_ATTENTION else other for name in named)


def _shapes(config: Config, types: tuple[str, ...]) -> tuple[LatentShape, ...]:
    """The attention of every layer: by layer in per_layer_config, else by the keys of sliding layers."""
    if _BY_LAYER not in config.values:
        main = latent_shape(config, query_rank_needed=True)
        sliding = _changed(config, _sliding(config)) if SLIDING_ATTENTION in types else main
        return tuple(sliding if kind == SLIDING_ATTENTION else main for kind in types)
    changes = _changes(config, len(types))
    return tuple(_changed(config, changes.get(index, {})) for index in range(len(types)))


def _sliding(config: Config) -> dict[str, Any]:
    """What differs in sliding layers: the width of a head counts its part with positions."""
    changes = {key: config.count((f"swa_{key}",)) or default for key, default in _SLIDING.items()}
    head_dim = config.count(("swa_head_dim",)) or _SLIDING_HEAD_DIM
    rope_dim = config.count(("swa_qk_rope_head_dim",)) or head_dim - changes["qk_nope_head_dim"]
    return changes | {"qk_rope_head_dim": rope_dim}


def _changes(config: Config, layers: int) -> dict[int, Mapping[str, Any]]:
    """per_layer_config: what differs, by the number of the layer."""
    section = config.section(_BY_LAYER) or Config(config.where, {})
    changes: dict[int, Mapping[str, Any]] = {}
    for key in section.values:
        index = int(key) if isinstance(key, str) and key.isdecimal() and len(key) <= 8 else -1
        if not 0 <= index < layers:
            raise ModelError(
                f"{section.where} has {shown(key)}, which is the number of none of the {layers} layers",
                "Layers are counted from 0: check the file.",
            )
        layer = section.section(key)
        changes[index] = layer.values if layer else {}
    return changes


def _changed(config: Config, changes: Mapping[str, Any]) -> LatentShape:
    return latent_shape(config.changed(changes), query_rank_needed=True)


def _sparse(config: Config, layers: int) -> tuple[bool, ...]:
    """From first_k_dense_replace on every moe_layer_freq-th layer, or those that it lists with 1."""
    first = config.size("first_k_dense_replace", 1)
    if isinstance(config.raw(("moe_layer_freq",))[1], list):
        listed = config.counts("moe_layer_freq", layers) or ()
        return tuple(index >= first and listed[index] > 0 for index in range(layers))
    every = config.count(("moe_layer_freq",)) or 1
    return tuple(index >= first and index % every == 0 for index in range(layers))


def _with_shared_width(config: Config) -> Config:
    """The same config with the width of shared experts under one name."""
    width = config.values.get("moe_shared_expert_intermediate_size")
    if width is None:
        return config
    return config.changed({"shared_experts_intermediate_size": width})


_MIXTURE = Mixture(shared_number=SHARED, shared_width="shared_experts_intermediate_size", sparse=by_type(_sparse))
