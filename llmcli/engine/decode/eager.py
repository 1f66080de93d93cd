"""One forward per step, called from Python: any model, any cache, any device."""

from collections.abc import Sequence
from typing import Any

import torch

from llmcli.engine.decode.path import Ids
from llmcli.engine.sample import Sampler
from llmcli.inference import DecodeName


def forward(model: Any, ids: torch.Tensor, cache: Any) -> torch.Tensor:
    """Run ids (rows, n) after what `cache` holds; returns the logits (rows, vocabulary) of the last position only."""
    output = model(input_ids=ids, cache=cache, use_cache=True, logits_to_keep=1)
    logits: torch.Tensor = output.logits[:, -1]
    return logits


class EagerPath:
    """The decode path that every other one has to equal."""

    name: DecodeName = "eager"

    def __init__(self, model: Any, cache: Any, sampler: Sampler) -> None:
        self._model = model
        self._cache = cache
        self._sampler = sampler
        self._device = model.device
        self.steps = self.drafted = self.accepted = 0

    def prefill(self, ids: torch.Tensor) -> torch.Tensor:
        """See `DecodePath.prefill`."""
        self._device = ids.device  # of a model on several devices, the one that takes ids
        return forward(self._model, ids, self._cache)

    def first(self, logits: torch.Tensor) -> Ids:
        """See `DecodePath.first`."""
        return self._sampler(logits)

    def step(self, last: Ids) -> Sequence[Ids]:
        """See `DecodePath.step`."""
        ids = torch.tensor(last, device=self._device).view(-1, 1)
        self.steps += 1
        return (self._sampler(forward(self._model, ids, self._cache)),)

    def settle(self, tokens: int) -> None:
        """See `DecodePath.settle`; nothing was forwarded beyond what was asked for."""
