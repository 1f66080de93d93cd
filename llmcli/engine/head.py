"""The output head of a model at work on the last of many positions."""

from typing import Any

import torch
from torch import nn


def read_head_in_place(model: Any) -> None:
    """Let the head of `model` read its weights where they lie, for a position that was cut out of a prompt as well.

    torch folds batch and positions into the rows of one product only where strides tell that they follow each other.
    Those of one position keep the strides of all of them, and then a CPU copies the whole weight, for every prompt.
    """
    head = model.get_output_embeddings()
    if isinstance(head, nn.Linear) and head.weight.device.type == "cpu":
        head.register_forward_pre_hook(_as_rows)


def _as_rows(_head: nn.Module, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...] | None:
    """The same positions, with the strides of rows. None, to leave it at that, where they are given by keyword."""
    if not given:
        return None
    hidden, *more = given
    return (hidden.flatten().view(hidden.shape), *more)
