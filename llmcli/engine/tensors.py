"""The tensors that a value is made of."""

from collections.abc import Iterator

import torch


def tensors_in(value: object) -> Iterator[torch.Tensor]:
    """Every tensor in dicts, lists and tuples, however deep; the parts of one that is of a class made of others."""
    if isinstance(value, torch.Tensor):
        # optimum-quanto keeps packed numbers, scale and zero as the parts of a tensor class of its own
        parts = value.__tensor_flatten__()[0] if hasattr(value, "__tensor_flatten__") else ()
        yield from (tensor for name in parts for tensor in tensors_in(getattr(value, name))) if parts else (value,)
    elif isinstance(value, dict):
        yield from (tensor for part in value.values() for tensor in tensors_in(part))
    elif isinstance(value, list | tuple):
        yield from (tensor for part in value for tensor in tensors_in(part))
