"""What a decode path is."""

from collections.abc import Sequence
from typing import Protocol

import torch

from llmcli.inference import DecodeName

Ids = tuple[int, ...]
"""One id per row of the batch."""


class DecodePath(Protocol):
    """The work of one request on the device: reads the prompt, then makes one step after the other.

    name: as `--decode` calls it. steps: decode forwards so far. drafted, accepted: tokens that speculation
    proposed, and those that became part of the answer.
    """

    name: DecodeName
    steps: int
    drafted: int
    accepted: int

    def prefill(self, ids: torch.Tensor) -> torch.Tensor:
        """Read prompt ids (rows, n) after what the cache holds; the logits (rows, vocabulary) of the last position."""
        ...

    def first(self, logits: torch.Tensor) -> Ids:
        """The first ids, from the logits of the last prompt position."""
        ...

    def step(self, last: Ids) -> Sequence[Ids]:
        """The ids that follow `last`, in order, as far as one step makes them known: at least those of one position.

        Raises LlmcliError when logits are no finite numbers.
        """
        ...

    def settle(self, tokens: int) -> None:
        """End the request: leave its first `tokens` tokens in the cache, which is no more than have been forwarded."""
        ...
