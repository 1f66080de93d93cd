"""int4: weight-only quantization for a CPU, on torch's own kernels.

Linear layers hold 4-bit numbers with a scale and a zero point per 32 of them, the output head 8-bit numbers with a
scale per row. A prompt is multiplied with the same weights unpacked, where memory allows: at many rows a matrix product
in 16 bits is faster than one that unpacks on the way.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
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

PACKED_ROWS = 64
"""The kernel's order is one of so many rows, or of a part of them: whole runs of them are packed by themselves."""

_TOGETHER = 1 << 20
"""Weights that are packed at a time."""

_ALONE = (1 << 15) - 1
"""Weights that are worked on at a time: they stay in a core's own cache, and torch splits no more than them over cores.

Cores that work on layers of their own do not wait for each other.
"""

_LEAST_STEP = torch.finfo(torch.float32).tiny
"""What weights are divided by where the step between their numbers is 0: all of a group are equal, or a row is 0."""

_LEFT_FREE = 1 << 30
"""Bytes that unpacked weights leave free; where the cache has grown beyond that, they are given up."""


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
        flat = torch._weight_int4pack_mm_for_cpu(_rows(x), self.packed, GROUP, self.scale_zero)
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

    @property
    def weight(self) -> torch.Tensor:
        """What tells the dtype to work in; some model code asks the head's weight for it."""
        return self.scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        flat = torch._weight_int8pack_mm(_rows(x), self.packed, self.scale)
        out = flat.reshape(*x.shape[:-1], self.out_features)
        return out if self.bias is None else out + self.bias


def _rows(x: torch.Tensor) -> torch.Tensor:
    """The rows (rows, in) of x (..., in), one after the other in memory as the kernels want them."""
    return x.reshape(-1, x.shape[-1]).contiguous()


def quantize_int4(model: Any, *, unpacked: bool) -> None:
    """Replace the linear layers of `model`, whose weights are in memory; those of each are let go of at once.

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
    places: dict[tuple[int, int], list[tuple[nn.Module, str]]] = defaultdict(list)
    for parent, name, linear in _linears(model):
        places[id(linear.weight), id(linear.bias)].append((parent, name))

    def replace(alike: list[tuple[nn.Module, str]]) -> None:
        linear: Any = getattr(*alike[0])
        packed = packed_head(linear) if linear is head else packed_linear(linear)
        for place in alike:
            setattr(*place, packed)

    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        list(pool.map(replace, places.values()))


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
            if type(child) is nn.Linear and divides(*child.weight.shape, head=child is head):
                yield parent, name, child


def divides(out_features: int, in_features: int, *, head: bool = False) -> bool:
    """Whether the kernels take a layer of these sizes: the 4-bit one, or that of the output head.

    The latter checks nothing itself: it reads its input in runs of 16, and beyond the end where that leaves a rest.
    """
    return in_features % GROUP == 0 if head else int4_takes(out_features, in_features)


def _int4_linear(linear: nn.Linear, *, unpacked: bool) -> Int4Linear:
    weight = linear.weight.detach()
    out, wide = weight.shape
    packed = torch.empty(out, wide // 2, dtype=torch.uint8)
    made = Int4Linear(packed, weight.new_empty(wide // GROUP, out, 2), linear.bias)
    if unpacked and psutil.virtual_memory().available > weight.nbytes + _LEFT_FREE:
        made.dense = (torch.empty_like(weight),)
    for rows in _runs(out, max(1, _TOGETHER // (wide * PACKED_ROWS)) * PACKED_ROWS):
        packed[rows] = torch._convert_weight_to_int4pack_for_cpu(_numbers(weight, rows, made), 1)
    return made


def _numbers(weight: torch.Tensor, rows: slice, made: Int4Linear) -> torch.Tensor:
    """What is to be packed of some rows; their scales, zero points and unpacked weights go to `made`."""
    numbers = torch.empty(weight[rows].shape, dtype=torch.int32)
    for few in _runs(len(numbers), _few(weight)):
        at = slice(rows.start + few.start, rows.start + few.stop)
        steps, scale, zero = quantized(weight[at])
        numbers[few] = steps
        made.scale_zero[:, at, 0], made.scale_zero[:, at, 1] = scale.T, zero.T
        for dense in made.dense:
            dense[at] = _unpacked(steps, made.scale_zero[:, at])
    return numbers


def _few(weight: torch.Tensor) -> int:
    return max(1, _ALONE // weight.shape[1])


def _runs(rows: int, most: int) -> Iterator[slice]:
    """All of `rows`, at most `most` at a time."""
    return (slice(start, min(start + most, rows)) for start in range(0, rows, most))


def quantized(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Numbers 0 … 15 (out, in) in float32, scales and zero points (out, in ÷ 32): each group's range in 15 equal steps.

    A weight that was quantized in this way before, as ggml's Q4_1 is, falls on the same steps again.
    """
    groups = _wide(weight).view(weight.shape[0], -1, GROUP)
    low, high = groups.amin(-1), groups.amax(-1)
    scale = (high - low) / 15
    steps = scale.clamp_min(_LEAST_STEP)[..., None]
    groups.sub_(low[..., None]).div_(steps).round_().clamp_(0, 15)
    return groups.view(weight.shape), scale, low + 8 * scale


def _unpacked(numbers: torch.Tensor, scale_zero: torch.Tensor) -> torch.Tensor:
    """The weights that numbers (out, in) stand for, in float32; they take the numbers' place."""
    scale, zero = scale_zero.transpose(0, 1).float().unbind(-1)
    groups = numbers.view(numbers.shape[0], -1, GROUP)
    return groups.sub_(8).mul_(scale[..., None]).add_(zero[..., None]).view(numbers.shape)


def _int8_head(linear: nn.Linear) -> Int8Head:
    weight = linear.weight.detach()
    packed = torch.empty(weight.shape, dtype=torch.int8)
    scale = weight.new_empty(weight.shape[0])
    for rows in _runs(len(weight), _few(weight)):
        wide = _wide(weight[rows])
        scale[rows] = wide.abs().amax(-1) / 127
        packed[rows] = wide.div_(scale[rows].float().clamp_min(_LEAST_STEP)[:, None]).round_().clamp_(-127, 127)
    return Int8Head(packed, scale, linear.bias)


def _wide(weight: torch.Tensor) -> torch.Tensor:
    """A copy in float32 that may be overwritten."""
    return torch.empty(weight.shape, dtype=torch.float32).copy_(weight)


def int4_modules(model: Any) -> Iterator[Int4Linear | Int8Head]:
    """The quantized layers of `model`."""
    return (module for module in model.modules() if isinstance(module, (Int4Linear, Int8Head)))


def make_room(model: Any, wanted: int = _LEFT_FREE) -> bool:
    """Give unpacked weights up, one after the other, until `wanted` bytes are free; whether any had to go."""
    given = False
    for module in int4_modules(model):
        if psutil.virtual_memory().available >= wanted:
            break
        given |= bool(getattr(module, "dense", ()))
        if isinstance(module, Int4Linear):
            module.dense = ()
    return given


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
