"""Logits to the next ids."""

from collections.abc import Sequence

import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from llmcli.errors import LlmcliError
from llmcli.inference import Sampling


class Sampler:
    """Chooses one id per row and call; built once per request from transformers' processors.

    The order is that of transformers' `generate`: repetition penalty, temperature, top-k, top-p, min-p.
    """

    def __init__(self, sampling: Sampling, prompt: torch.Tensor) -> None:
        """`prompt`: ids (rows, n) on the model's device."""
        self._greedy = sampling.greedy
        self._processors = LogitsProcessorList()
        self._seen = prompt if sampling.repetition_penalty != 1 else None
        if self._seen is not None:
            self._processors.append(RepetitionPenaltyLogitsProcessor(float(sampling.repetition_penalty)))
        self._random: torch.Generator | None = None
        if not self._greedy:
            self._add_warpers(sampling)
            self._random = torch.Generator(prompt.device).manual_seed(sampling.seed or 0)

    @property
    def memoryless(self) -> bool:
        """Whether a choice follows from its own logits alone, not from earlier choices or a random source."""
        return self._greedy and not self._processors

    def _add_warpers(self, sampling: Sampling) -> None:
        if sampling.temperature != 1:
            self._processors.append(TemperatureLogitsWarper(float(sampling.temperature)))
        if sampling.top_k:
            self._processors.append(TopKLogitsWarper(sampling.top_k))
        if sampling.top_p < 1:
            self._processors.append(TopPLogitsWarper(float(sampling.top_p)))
        if sampling.min_p:
            self._processors.append(MinPLogitsWarper(float(sampling.min_p)))

    def __call__(self, logits: torch.Tensor) -> tuple[int, ...]:
        """The next id of each row, from logits (rows, vocabulary). Raises LlmcliError when they are not finite."""
        # One transfer brings both the ids and the check to the host.
        return known(self.choose(logits).tolist())

    def choose(self, logits: torch.Tensor) -> torch.Tensor:
        """The next ids (rows,) on the device of logits (rows, vocabulary), -1 where those are not finite numbers."""
        if self._processors:
            seen = self._seen if self._seen is not None else logits.new_zeros((len(logits), 0), dtype=torch.long)
            scores = self._processors(seen, logits.float())
        else:
            scores = logits
        best, index = logits.max(-1)
        finite = torch.isfinite(best)
        if not self._greedy or self._processors:
            index = self._choose(scores, finite)
        if self._seen is not None:
            self._seen = torch.cat((self._seen, index.view(-1, 1)), dim=-1)
        return torch.where(finite, index, -1)

    def _choose(self, scores: torch.Tensor, finite: torch.Tensor) -> torch.Tensor:
        if self._greedy:
            return scores.argmax(-1)
        weights = scores.softmax(-1)
        # Drawing from NaN is an error of its own; what is drawn here instead is thrown away by the caller.
        weights = torch.where(finite[:, None], weights, torch.ones_like(weights))
        return torch.multinomial(weights, 1, generator=self._random)[:, 0]


def known(ids: Sequence[int]) -> tuple[int, ...]:
    """Ids that a sampler chose, on the host. Raises LlmcliError for one that came from logits that are no numbers."""
    if min(ids) < 0:
        raise LlmcliError(
            "the model's logits are not finite numbers",
            "Weights may be damaged, or the dtype too narrow: try --dtype float32 or bfloat16.",
        )
    return tuple(ids)
