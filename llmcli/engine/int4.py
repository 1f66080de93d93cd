"""int4: weight-only quantization for a CPU, on torch's own kernels.

Linear layers hold 4-bit numbers with a scale and a zero point per 32 of them, the output head 8-bit numbers with a
scale per row. A prompt is multiplied with the same weights unpacked, where memory allows: at many rows a matrix product
in 16 bits is faster than one that unpacks on the way.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psutil
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own abbreviation
from torch import nn

from llmcli.load_rules import INT4_GROUP as GROUP
from llmcli.load_rules import int4_takes

_FEW_ROWS = 17
"""Up to so many rows the packed weights are multiplied, above the unpacked ones: a step with drafts is a small one."""

_AT_ONCE = 1 << 22
"""Weights that are quantized at once."""

_LEFT_FREE = 1 << 30
"""Bytes that unpacked weights must leave free."""


_Packer = Callable[[nn.Linear], nn.Module]


class Int4Linear(nn.Module):
    """A linear layer of 4-bit weights: x (..., in) → (..., out) in x's dtype.

    packed: (out, in ÷ 2) bytes in the kernel's own order. scale_zero: (in ÷ 32, out, 2): a weight is
    (number - 8) · scale + zero. dense: the same weights unpacked (out, in), where they are kept.
    """

    packed: torch.Tensor
    scale_zero: torch.Tensor
    bias: torch.Tensor | None

    def __init__(self, packed: torch.Tensor, scale_zero: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.register_buffer("packed", packed)
        self.register_buffer("scale_zero", scale_zero)
        self.register_parameter("bias", None if bias is None else nn.Parameter(bias, requires_grad=False))
        self.out_features, self.in_features = scale_zero.shape[1], scale_zero.shape[0] * GROUP
        self.dense: tuple[torch.Tensor, ...] = ()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        rows = x.numel() // self.in_features
        if self.dense and rows > _FEW_ROWS:
            return F.linear(x, self.dense[0], self.bias)
        flat = torch._weight_int4pack_mm_for_cpu(x.reshape(-1, self.in_features), self.packed, GROUP, self.scale_zero)
        out = flat.reshape(*x.shape[:-1], self.out_features)
        return out if self.bias is None else out + self.bias


class Int8Head(nn.Module):
    """An output head of 8-bit weights: x (..., in) → (..., out). packed: (out, in). scale: (out,), one per row."""

    packed: torch.Tensor
    scale: torch.Tensor
    bias: torch.Tensor | None

    def __init__(self, packed: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.register_buffer("packed", packed)
        self.register_buffer("scale", scale)
        self.register_parameter("bias", None if bias is None else nn.Parameter(bias, requires_grad=False))
        self.out_features, self.in_features = packed.shape

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        flat = torch._weight_int8pack_mm(x.reshape(-1, self.in_features), self.packed, self.scale)
        out = flat.reshape(*x.shape[:-1], self.out_features)
        return out if self.bias is None else out + self.bias


def quantize_int4(model: Any, *, unpacked: bool) -> None:
    """Replace the linear layers of `model`, whose weights are in memory, one after the other.

    Layers whose sizes the kernel does not take stay as they are. unpacked: keep unpacked weights for prompts as well,
    as long as memory lasts.
    """
    _replace(model, partial(_int4_linear, unpacked=unpacked), _int8_head)


def hollow_int4(model: Any) -> None:
    """The same on a model whose weights have shapes and no values: nothing is computed."""
    _replace(model, _hollow_linear, _hollow_head)


def _replace(model: Any, packed_linear: _Packer, packed_head: _Packer) -> None:
    """Put packed layers in place of linear ones: one for all that share a weight, as those of tied blocks do."""
    head = model.get_output_embeddings()
    places = defaultdict(list)
    for parent, name, linear in _linears(model):
        places[id(linear.weight), id(linear.bias)].append((parent, name, linear))
    while places:  # what has been replaced is given up before the next one is packed
        _, alike = places.popitem()
        linear = alike[0][2]
        packed = packed_head(linear) if linear is head else packed_linear(linear)
        for parent, name, _ in alike:
            setattr(parent, name, packed)


def _hollow_linear(linear: nn.Linear) -> Int4Linear:
    out, wide = linear.weight.shape
    scale_zero = linear.weight.new_empty(wide // GROUP, out, 2)
    return Int4Linear(torch.empty(out, wide // 2, dtype=torch.uint8, device=scale_zero.device), scale_zero, linear.bias)


def _hollow_head(linear: nn.Linear) -> Int8Head:
    return Int8Head(
        linear.weight.new_empty(linear.weight.shape, dtype=torch.int8),
        linear.weight.new_empty(linear.weight.shape[0]),
        linear.bias,
    )


def _linears(model: Any) -> Iterator[tuple[nn.Module, str, nn.Linear]]:
    """The linear layers that can be quantized, each with its parent and its name there."""
    head = model.get_output_embeddings()
    for parent in model.modules():
        for name, child in parent.named_children():
            if type(child) is nn.Linear and (child is head or int4_takes(*child.weight.shape)):
                yield parent, name, child


def _int4_linear(linear: nn.Linear, *, unpacked: bool) -> Int4Linear:
    numbers, scale, zero = quantized(linear.weight)
    dtype = linear.weight.dtype
    scale_zero = torch.stack((scale, zero), -1).transpose(0, 1).contiguous().to(dtype)
    made = Int4Linear(torch._convert_weight_to_int4pack_for_cpu(numbers, 1), scale_zero, linear.bias)
    room = linear.weight.numel() * dtype.itemsize + _LEFT_FREE
    if unpacked and psutil.virtual_memory().available > room:
        made.dense = (_unpacked(numbers, scale_zero),)
    return made


def quantized(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Numbers 0 … 15 (out, in), scales and zero points (out, in ÷ 32): the range of each group in 15 equal steps.

    A weight that was quantized in this way before, as ggml's Q4_1 is, falls on the same steps again.
    """
    numbers = torch.empty(weight.shape, dtype=torch.int32)
    scale, zero = torch.empty(2, weight.shape[0], weight.shape[1] // GROUP).unbind()
    for rows in _blocks(weight):
        numbers[rows], scale[rows], zero[rows] = _quantized_rows(weight[rows])
    return numbers, scale, zero


def _blocks(weight: torch.Tensor) -> Iterator[slice]:
    """Some rows at a time: what is computed of them takes six times as much as they do in 16 bits."""
    count = max(1, _AT_ONCE // weight.shape[1])
    return (slice(first, first + count) for first in range(0, weight.shape[0], count))


def _quantized_rows(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    groups = weight.float().reshape(weight.shape[0], -1, GROUP)
    low, high = groups.amin(-1), groups.amax(-1)
    scale = ((high - low) / 15).clamp_min(1e-8)
    numbers = ((groups - low[..., None]) / scale[..., None]).round().clamp(0, 15)
    return numbers.to(torch.int32).reshape(weight.shape), scale, low + 8 * scale


def _unpacked(numbers: torch.Tensor, scale_zero: torch.Tensor) -> torch.Tensor:
    scale, zero = scale_zero.transpose(0, 1).float().unbind(-1)
    weight = torch.empty(numbers.shape, dtype=scale_zero.dtype)
    for rows in _blocks(weight):
        steps = numbers[rows].unflatten(-1, (-1, GROUP)) - 8
        weight[rows] = (steps * scale[rows, :, None] + zero[rows, :, None]).flatten(-2)
    return weight


def _int8_head(linear: nn.Linear) -> Int8Head:
    scale, packed = torch.empty_like(linear.weight[:, 0]), torch.empty_like(linear.weight, dtype=torch.int8)
    for rows in _blocks(packed):
        weight = linear.weight[rows].float()
        scale[rows] = (weight.abs().amax(-1) / 127).clamp_min(1e-8)
        packed[rows] = (weight / scale[rows].float()[:, None]).round().clamp(-127, 127)
    return Int8Head(packed, scale, linear.bias)


def int4_modules(model: Any) -> Iterator[Int4Linear | Int8Head]:
    """The quantized layers of `model`."""
    return (module for module in model.modules() if isinstance(module, (Int4Linear, Int8Head)))


def parameter_count(model: Any) -> int:
    """Parameters of `model`, tied ones once, those of quantized layers by what they stand for."""
    tied = getattr(model.config.get_text_config(decoder=True), "tie_word_embeddings", False)
    quantized_layers = (module for module in int4_modules(model) if not (tied and isinstance(module, Int8Head)))
    return int(model.num_parameters()) + sum(one.out_features * one.in_features for one in quantized_layers)


def packed_bytes(model: Any) -> int:
    """Bytes of packed weights and their scales: what a decode step reads of them."""
    return sum(tensor.nbytes for module in int4_modules(model) for tensor in module.buffers())


def unpacked_bytes(model: Any) -> int:
    """Bytes of the unpacked weights that are kept for prompts."""
    return sum(tensor.nbytes for module in int4_modules(model) for tensor in getattr(module, "dense", ()))
