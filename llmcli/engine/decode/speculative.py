"""Several tokens per forward: drafts, checked all at once."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from llmcli.engine.architectures import frequency_switch
from llmcli.engine.decode.drafts import Drafter, DraftLength
from llmcli.engine.decode.eager import forward
from llmcli.engine.decode.path import Ids
from llmcli.engine.decode.rewind import Rewind
from llmcli.engine.sample import Sampler, known
from llmcli.inference import DecodeName


class SpeculativePath:
    """Runs the last token with drafts of the next ones through the model, and keeps as many as it agrees with.

    Source: speculative decoding (https://arxiv.org/abs/2211.17192), with another way to accept: every position is
    sampled as it would be without drafts, and a draft holds where it is the id that was sampled. So the ids are those
    of eager decoding, greedy or drawn with a seed, whatever the drafts are. Batches of one row only.

    n tokens that ended without a failure are n - 1 = steps + accepted: each step makes one token beside the drafts
    that hold, and `settle` takes those back that came after the end of the answer.
    """

    name: DecodeName = "eager"

    def __init__(
        self, model: Any, cache: Any, sampler: Sampler, drafter: Drafter, *, prompt: Sequence[int], room: int
    ) -> None:
        """`cache` holds the start of `prompt`. room: the most tokens that the answer may have."""
        self._model = model
        self._cache = cache
        self._sampler = sampler
        self._drafter = drafter
        self._length = DraftLength(drafter.most)
        self._rewind = Rewind(cache)
        self._prompt = prompt
        self._read = 0
        self._held = cache.get_seq_length()
        """Tokens in the cache that are part of prompt or answer; wrong drafts may come after them."""
        self._end = len(prompt) + room
        self._switch = frequency_switch(model.config)
        self._new: list[int] = []
        self.steps = self.drafted = self.accepted = 0

    def prefill(self, ids: torch.Tensor) -> torch.Tensor:
        """See `DecodePath.prefill`. What the drafter makes of the prompt is part of what the prompt costs."""
        logits = forward(self._model, ids, self._cache)
        self._held += ids.shape[1]
        self._drafter.read(self._prompt[self._read : self._held])
        self._read = self._held
        return logits

    def first(self, logits: torch.Tensor) -> Ids:
        """See `DecodePath.first`."""
        ids = self._sampler(logits)
        self._new = list(ids)
        return ids

    def step(self, last: Ids) -> Sequence[Ids]:
        """See `DecodePath.step`."""
        drafts = self._drafter.draft(self._new, min(self._length.count, self._most()))
        self._rewind.to(self._held)
        self.steps += 1
        ids = torch.tensor([[*last, *drafts]], device=self._model.device)
        output = self._model(input_ids=ids, cache=self._cache, use_cache=True, logits_to_keep=ids.shape[1])
        self._new = self._agreed(output.logits[0], drafts)
        held = len(self._new) - 1
        self.drafted += len(drafts)
        self.accepted += held
        self._length.learn(len(drafts), held)
        self._held += len(self._new)
        return [(token_id,) for token_id in self._new]

    def _most(self) -> int:
        """How many drafts may follow the last token: one less than the room, and none of other rotary frequencies."""
        following = self._end - (self._held + 1)
        most = following - 1
        if self._switch is not None and self._held < self._switch:
            most = min(most, self._switch - (self._held + 1))
        return most

    def _agreed(self, logits: torch.Tensor, drafts: Sequence[int]) -> list[int]:
        """The next ids, from logits (drafts + 1, vocabulary): drafts that hold, then the id that no draft foretold.

        Where logits are no finite numbers, the ids before them still hold; the next step fails at its first position.
        """
        made: list[int] = []
        for at, token_id in enumerate(self._chosen(logits)):
            if token_id < 0 and made:
                break
            made += known([token_id])
            if at == len(drafts) or token_id != drafts[at]:
                break
        return made

    def _chosen(self, logits: torch.Tensor) -> Iterator[int]:
        """The sampler's choice at one position after the other, -1 where logits are no finite numbers."""
        if self._sampler.memoryless:  # all positions at once: one transfer from the device
            yield from self._sampler.choose(logits).tolist()
            return
        for position in logits:
            yield int(self._sampler.choose(position[None]))

    def settle(self, tokens: int) -> None:
        """See `DecodePath.settle`."""
        self.accepted -= self._held - tokens
        self._rewind.end(tokens)
        self._drafter.settle(tokens)
