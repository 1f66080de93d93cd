"""The phase-timed loop: one prefill, then n - 1 decode steps."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from llmcli.inference import Clock, FinishReason


@dataclass(frozen=True, slots=True)
class Evaluated:
    """`count` prompt tokens have been run through the model by clock reading `at`, the device being idle."""

    count: int
    at: float


@dataclass(frozen=True, slots=True)
class Generated:
    """An id known to the host at clock reading `at`; `ends` says why it is the last one, if it is."""

    token_id: int
    at: float
    ends: FinishReason | None


def forward(model: Any, ids: torch.Tensor, cache: Any) -> torch.Tensor:
    """Run ids (1, n) after what `cache` holds; returns the logits (1, vocabulary) of the last position only."""
    output = model(input_ids=ids, cache=cache, use_cache=True, logits_to_keep=1)
    logits: torch.Tensor = output.logits[:, -1]
    return logits


def synchronize(device: torch.device) -> None:
    """Wait until `device` has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


@torch.inference_mode()
def generate(
    model: Any,
    cache: Any,
    prompt: torch.Tensor,
    *,
    chunk: int,
    sample: Callable[[torch.Tensor], int],
    check: Callable[[int], FinishReason | None],
    clock: Clock,
) -> Iterator[Evaluated | Generated]:
    """Evaluate `prompt` (1, n) in chunks, then yield one id after the other until `check` says why it was the last.

    Closing the iterator ends the request: between two chunks, or between two ids. No forward follows the last id.
    """
    done = 0
    for ids in prompt.split(chunk, dim=1):
        logits = forward(model, ids, cache)
        synchronize(prompt.device)
        done += ids.shape[1]
        yield Evaluated(done, clock())
    while True:
        token_id = sample(logits)
        at = clock()
        ends = check(token_id)
        yield Generated(token_id, at, ends)
        if ends:
            return
        logits = forward(model, prompt.new_tensor([[token_id]]), cache)
