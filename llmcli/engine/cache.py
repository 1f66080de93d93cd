"""The KV cache of one request."""

from collections.abc import Iterator
from typing import Any

import torch
from transformers import DynamicCache


def new_cache(config: Any) -> DynamicCache:
    """An empty growing cache whose layers (full, sliding, linear …) follow `config`."""
    return DynamicCache(config=config)


def kv_bytes(cache: DynamicCache) -> int:
    """Bytes that the cache's tensors hold: K, V and any recurrent state of every layer."""
    return sum(tensor.numel() * tensor.element_size() for tensor in _tensors(cache))


def _tensors(cache: DynamicCache) -> Iterator[torch.Tensor]:
    for layer in cache.layers:
        for value in vars(layer).values():
            candidates = value.values() if isinstance(value, dict) else (value,)
            yield from (tensor for tensor in candidates if isinstance(tensor, torch.Tensor) and tensor.dim() > 1)
