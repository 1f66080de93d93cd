"""The layers of transformers' QuantizedCache: which there are, and what they hold."""

from collections.abc import Iterator

import torch
from transformers.cache_utils import BaseQuantizedLayer, Fp8QuantizedLayer, HQQQuantizedLayer, QuantoQuantizedLayer

from llmcli.engine.tensors import tensors_in

QUANTIZED_LAYERS = (Fp8QuantizedLayer, HQQQuantizedLayer, QuantoQuantizedLayer)


def packed_tensors(layer: BaseQuantizedLayer) -> Iterator[torch.Tensor]:
    """Every tensor that a layer holds: packed numbers, their scales and zeros, the tokens that wait unquantized."""
    for value in vars(layer).values():
        yield from tensors_in(value)
