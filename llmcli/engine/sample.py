"""Logits to the next ids."""

from collections.abc import Sequence
from math import isfinite

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
    settings: what the choice depends on besides logits; equal for two samplers that choose alike.
    seen: ids (rows, n) so far where a repetition penalty needs them. random: where ids are drawn.
    """

    def __init__(self, sampling: Sampling, prompt: torch.Tensor) -> None:
        """`prompt`: ids (rows, n) on the model's device."""
        self._greedy = sampling.greedy
        self.settings = _settings(sampling)
        self._processors = LogitsProcessorList()
        self.seen = prompt if sampling.repetition_penalty != 1 else None
        if self.seen is not None:
            self._processors.append(RepetitionPenaltyLogitsProcessor(float(sampling.repetition_penalty)))
        self.random: torch.Generator | None = None
        if not self._greedy:
            self._add_warpers(sampling)
            self.random = torch.Generator(prompt.device).manual_seed(sampling.seed or 0)

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
        if self.memoryless and logits.device.type == "cpu":
            # What `pick` chooses, checked without tensors: after a small model's step each of their operations shows.
            best, index = logits.max(-1)
            return known([at if isfinite(top) else -1 for top, at in zip(best.tolist(), index.tolist(), strict=True)])
        # One transfer brings both the ids and the check to the host.
        return known(self.choose(logits).tolist())

    def choose(self, logits: torch.Tensor) -> torch.Tensor:
        """The next ids (rows,) on the device of logits (rows, vocabulary), -1 where those are not finite numbers."""
        ids = self.pick(logits, self.seen, self.random)
        if self.seen is not None:
            self.seen = torch.cat((self.seen, ids.clamp(min=0)[:, None]), dim=-1)
        return ids

    def resume(self, ids: Sequence[tuple[int, ...]], random: torch.Generator) -> None:
        """Go on after `ids`, position by position, that were chosen elsewhere as here, drawn from `random`."""
        if self.random is not None and ids:
            self.random.set_state(random.get_state())
        if self.seen is not None and ids:
            self.seen = torch.cat((self.seen, torch.tensor(ids, device=self.seen.device).T), dim=-1)

    def pick(self, logits: torch.Tensor, seen: torch.Tensor | None, random: torch.Generator | None) -> torch.Tensor:
        """As `choose`, from these arguments alone: no state of the sampler takes part, and no host.

        seen: ids (rows, n) that the repetition penalty is for, in any order and number.
        """
        scores = logits
        if self._processors:
            before = seen if seen is not None else logits.new_zeros((len(logits), 0), dtype=torch.long)
            scores = self._processors(before, logits.float())
        best, index = logits.max(-1)
        finite = torch.isfinite(best)
        if not self._greedy or self._processors:
            index = self._choose(scores, finite, random)
        return torch.where(finite, index, -1)

    def _choose(self, scores: torch.Tensor, finite: torch.Tensor, random: torch.Generator | None) -> torch.Tensor:
        """Greedy, or drawn: the id whose weight ÷ an exponential variate is largest is one drawn by weight.

        Source: exponential races (https://en.wikipedia.org/wiki/Exponential_distribution, distribution of the minimum
        of exponential random variables). It is what `torch.multinomial` does for one draw, to the same ids, after
        checks that wait for the device.
        """
        if self._greedy:
            return scores.argmax(-1)
        weights = scores.softmax(-1, dtype=torch.float32)
        # No id is more likely than another one where logits are no numbers: the caller throws the choice away.
        weights = torch.where(finite[:, None], weights, torch.ones_like(weights))
        return (weights / torch.empty_like(weights).exponential_(generator=random)).argmax(-1)


def _settings(sampling: Sampling) -> tuple[float, ...]:
    penalty = float(sampling.repetition_penalty)
    if sampling.greedy:
        return (penalty,)
    return (penalty, float(sampling.temperature), sampling.top_k, float(sampling.top_p), float(sampling.min_p))


def known(ids: Sequence[int]) -> tuple[int, ...]:
    """Ids that a sampler chose, on the host. Raises LlmcliError for one that came from logits that are no numbers."""
    if min(ids) < 0:
        raise LlmcliError(
            "the model's logits are not finite numbers",
            "Weights may be damaged, or the dtype too narrow: try --dtype float32 or bfloat16.",
        )
    return tuple(ids)
