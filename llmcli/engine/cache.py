"""The KV cache: making, measuring and cropping one."""

from collections.abc import Iterator
from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import BaseQuantizedLayer, DummyLayer, DynamicLayer, DynamicSlidingWindowLayer

from llmcli.engine.kv_rows import RowsLayer, SlidingRowsLayer, with_rows
from llmcli.engine.quantized_layers import QUANTIZED_LAYERS, packed_tensors

_CONTINUABLE = (DynamicLayer, DynamicSlidingWindowLayer, RowsLayer, SlidingRowsLayer, *QUANTIZED_LAYERS)
"""Kinds of layers that a later request may continue. Exactly these: kinds derived from them hold more than K and V."""


_ONE_TENSOR = {"deepseek_v4", "deepseek_v4_text"}
"""Model types whose keys are their values: transformers' own layers hold them once."""


def new_cache(config: Any, limit: int | None = None) -> DynamicCache:
    """An empty growing cache whose layers (full, sliding, linear …) follow `config`.

    limit: the most tokens that it will be asked to hold; None: not known.
    """
    cache = DynamicCache(config=config)
    if config.model_type not in _ONE_TENSOR:
        cache.layers = [with_rows(layer, limit) for layer in cache.layers]
    return cache


def kv_bytes(cache: DynamicCache) -> int:
    """Bytes of what the cache holds: K and V of its tokens and any recurrent state, of every layer."""
    return sum(tensor.numel() * tensor.element_size() for tensor in _tensors(cache))


def allocated_bytes(cache: DynamicCache) -> int:
    """Bytes of the memory that it has taken for them: buffers with rows to spare."""
    storages = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in _tensors(cache)}
    return sum(storages.values())


def _tensors(cache: DynamicCache) -> Iterator[torch.Tensor]:
    for layer in cache.layers:
        if isinstance(layer, BaseQuantizedLayer):
            yield from packed_tensors(layer)
            continue
        for value in vars(layer).values():
            candidates = value.values() if isinstance(value, dict) else (value,)
            yield from (tensor for tensor in candidates if isinstance(tensor, torch.Tensor) and tensor.dim() > 1)


def _own_layers(cache: DynamicCache) -> list[Any]:
    """The layers that hold something; the others read the K and V of an earlier one."""
    return [layer for layer in cache.layers if type(layer) is not DummyLayer]


def holds(cache: DynamicCache, tokens: int) -> bool:
    """Whether every layer has seen exactly `tokens` tokens and is of a kind that may be continued."""
    return all(type(layer) in _CONTINUABLE and layer.get_seq_length() == tokens for layer in _own_layers(cache))


def croppable(cache: DynamicCache) -> bool:
    """Whether every layer still has K and V of all tokens it has seen, and can forget the last of them.

    A sliding one drops what leaves its window; a quantized one cannot be cut.
    """
    layers = _own_layers(cache)
    return all(layer.is_croppable and layer.keys.shape[-2] == layer.get_seq_length() for layer in layers)


def crop(cache: DynamicCache, tokens: int) -> None:
    """Forget all but the first `tokens` tokens. Only for a cache that is `croppable`, or to keep all that it holds."""
    excess = cache.get_seq_length() - tokens
    if excess:
        cache.crop(-excess)
