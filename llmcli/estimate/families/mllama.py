"""Llama 3.2 Vision's decoder: layers of self-attention, and between them layers that attend to images only.

Read in transformers 5.24, models/mllama/modeling_mllama.py: a cross-attention layer keeps the keys and values of the
image's patches, and is skipped while no image is there.
"""

from dataclasses import replace

from llmcli.estimate.config import Config
from llmcli.estimate.counts import Count, gated_mlp, linear, tensor
from llmcli.estimate.facts import Blueprint, CrossAttention, Layer
from llmcli.estimate.families.decoder import Shape, Style, build, shape_of

IMAGE_TOKENS = 6404
_STYLE = Style(explicit_head_dim=False)
_DEFAULT_LAYERS = (3, 8, 13, 18, 23, 28, 33, 38)
_MORE_EMBEDDINGS = 8


def build_mllama(config: Config) -> Blueprint:
    """The decoder without an image in its context. Raises ModelError that names what is missing or wrong."""
    shape = shape_of(config, _STYLE)
    plain = build(config, _STYLE)
    crossing = set(_crossing(config, shape.layers))
    cross = Layer((CrossAttention(shape.kv_heads, shape.head_dim, tokens=0),), _cross_count(shape))
    layers = tuple(cross if index in crossing else layer for index, layer in enumerate(plain.layers))
    outside = plain.outside + tensor(_MORE_EMBEDDINGS, shape.hidden)
    return replace(plain, layers=layers, outside=outside, notes=_note(shape, len(crossing)))


def _crossing(config: Config, layers: int) -> tuple[int, ...]:
    said = config.counts("cross_attention_layers")
    return tuple(index for index in (_DEFAULT_LAYERS if said is None else said) if index < layers)


def _cross_count(shape: Shape) -> Count:
    """Query and key norm of one head's width each, and a gate each for attention and MLP."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    attention = linear(shape.hidden, queries) + linear(shape.hidden, keys) * 2 + linear(queries, shape.hidden)
    return attention + gated_mlp(shape.hidden, shape.intermediate) + tensor(2 * shape.hidden + 2 * shape.head_dim + 2)


def _note(shape: Shape, crossing: int) -> tuple[str, ...]:
    if not crossing:
        return ()
    rows = 2 * shape.kv_heads * shape.head_dim * IMAGE_TOKENS * crossing
    where = f"each of {crossing} cross-attention layers"
    return (f"sized without an image: one of 4 tiles adds {IMAGE_TOKENS} rows to {where}, {2 * rows} bytes at 16 bits",)
