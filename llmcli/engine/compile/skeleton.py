"""A model as its config describes it, in memory that is reserved and never touched: shapes without values."""

import json
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from llmcli.engine.cache import new_cache
from llmcli.engine.compile.recipe import Recipe
from llmcli.engine.decode.eager import forward
from llmcli.engine.decode.step import NAME, own_layers
from llmcli.engine.int4 import hollow_int4

EXAMPLE_TOKENS = 8
"""Held by the cache of the example that is traced. Above 2: torch.export takes lengths below that for constants."""

_EXAMPLE_ROWS = 32
"""Of its buffers; how many there are is no part of the code."""


def skeleton(recipe: Recipe) -> tuple[Any, Any]:
    """The model, and a cache that holds EXAMPLE_TOKENS of each of `recipe.rows` sequences, both without values.

    The model is built on the meta device, where a forward tells the cache's shapes, and gets memory afterwards: the
    kernel of the operating system hands out pages only when they are written to.
    """
    values = json.loads(recipe.config)
    config = CONFIG_MAPPING[values["model_type"]].from_dict(values)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, recipe.dtype)).eval()
    model.requires_grad_(requires_grad=False)
    if recipe.quant == "int4":
        hollow_int4(model)
    _set_kinds(model, recipe)
    cache = new_cache(model.config)
    _fill(cache, model, recipe.rows)
    _give_memory(cache, recipe.device)
    model.set_attn_implementation(NAME)
    return model.to_empty(device=recipe.device), cache


def _fill(cache: Any, model: Any, rows: int) -> None:
    """Run EXAMPLE_TOKENS of each row; the experts of a mixture in the way that takes any dtype on the meta device."""
    own = model.get_experts_implementation()
    model.set_experts_implementation("batched_mm")
    forward(model, torch.zeros((rows, EXAMPLE_TOKENS), dtype=torch.long, device="meta"), cache)
    model.set_experts_implementation(own)


def _set_kinds(model: Any, recipe: Recipe) -> None:
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    for name, dtype in recipe.kinds:
        tensors[name].data = tensors[name].data.to(getattr(torch, dtype))


def _give_memory(cache: Any, device: str) -> None:
    for layer in own_layers(cache):
        tokens = layer.keys.shape[-2]
        layer.buffers = tuple(
            torch.zeros((*rows.shape[:2], _EXAMPLE_ROWS, rows.shape[-1]), dtype=rows.dtype, device=device)
            for rows in (layer.keys, layer.values)
        )
        layer.keys, layer.values = (buffer.narrow(2, 0, tokens) for buffer in layer.buffers)
        layer.device = torch.device(device)
