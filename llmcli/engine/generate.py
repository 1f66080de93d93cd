"""The phase-timed loop: one prefill, then n - 1 decode steps."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from llmcli.engine.decode.path import DecodePath, Ids
from llmcli.inference import Clock, FinishReason


@dataclass(frozen=True, slots=True)
class Evaluated:
    """`count` prompt tokens have been run through the model by clock reading `at`, the device being idle."""

    count: int
    at: float


@dataclass(frozen=True, slots=True)
class Generated:
    """The ids of one position, one per row, known to the host at clock reading `at`.

    ends: why it is the last position, if it is. The first row decides; the others go along with it.
    """

    ids: Ids
    at: float
    ends: FinishReason | None

    @property
    def token_id(self) -> int:
        """The first row's id."""
        return self.ids[0]


def synchronize(device: torch.device) -> None:
    """Wait until `device` has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


@torch.inference_mode()
def generate(
    path: DecodePath,
    prompt: torch.Tensor,
    *,
    chunk: int,
    check: Callable[[int], FinishReason | None],
    clock: Clock,
    devices: Sequence[torch.device] = (),
) -> Iterator[Evaluated | Generated]:
    """Evaluate `prompt` (rows, n) in chunks, then yield one position after the other until `check` ends it.

    devices: those that work on the model, if more than the one of `prompt`: all are waited for when a chunk ends.
    Closing the iterator ends the request: between two chunks, or between two positions. No step follows the last one.
    """
    done = 0
    for ids in prompt.split(chunk, dim=1):
        logits = path.prefill(ids)
        for device in devices or (prompt.device,):
            synchronize(device)
        done += ids.shape[1]
        yield Evaluated(done, clock())
    positions: Sequence[Ids] = (path.first(logits),)
    while True:
        at = clock()
        for ids_known in positions:
            ends = check(ids_known[0])
            yield Generated(ids_known, at, ends)
            if ends:
                return
        positions = path.step(positions[-1])
