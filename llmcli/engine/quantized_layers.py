"""The layers of transformers' QuantizedCache: which there are, and what they hold."""

from collections.abc import Iterator

import torch
from transformers.cache_utils import BaseQuantizedLayer, Fp8QuantizedLayer, HQQQuantizedLayer, QuantoQuantizedLayer

QUANTIZED_LAYERS = (Fp8QuantizedLayer, HQQQuantizedLayer, QuantoQuantizedLayer)


def packed_tensors(layer: BaseQuantizedLayer) -> Iterator[torch.Tensor]:
    """Every tensor that a layer holds: packed numbers, their scales and zeros, the tokens that wait unquantized."""
    for value in vars(layer).values():
        yield from _tensors(value)


def _tensors(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        # optimum-quanto keeps packed numbers, scale and zero as the parts of a tensor class of its own
        parts = value.__tensor_flatten__()[0] if hasattr(value, "__tensor_flatten__") else ()
        yield from (tensor for name in parts for tensor in _tensors(getattr(value, name))) if parts else (value,)
    elif isinstance(value, dict):
        yield from (tensor for part in value.values() for tensor in _tensors(part))
    elif isinstance(value, tuple):
        yield from (tensor for part in value for tensor in _tensors(part))
