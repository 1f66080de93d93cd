"""Drafts by a smaller model of the same vocabulary."""

from collections.abc import Sequence

import torch

from llmcli.engine.decode.eager import forward
from llmcli.engine.decode.rewind import Rewind
from llmcli.engine.live_cache import LiveCache, common_prefix
from llmcli.engine.loaded import Loaded


class ModelDrafter:
    """Proposes what a smaller model finds most likely.

    It reads the prompt chunk by chunk beside the model that it drafts for, on a cache of its own that outlives the
    request as the model's does. Its choices are greedy whatever the request samples with: the likeliest id is the
    draft that holds most often. Past its own context it drafts nothing.
    """

    most = 8

    def __init__(self, draft: Loaded, live: LiveCache, prompt: Sequence[int], vocab_size: int) -> None:
        """`live`: the draft model's. vocab_size: of the model that it drafts for."""
        self._model = draft.model
        self._chunk = draft.chunk
        self._limit = draft.info.context_limit
        self._own_ids = draft.info.vocab_size
        self._drawn = min(vocab_size, draft.info.vocab_size)
        self._live = live
        self._held = live.match((tuple(prompt),), 0.0).cached  # nobody asks for the age of this cache
        self._cache = live.begin(self._held)
        self._rewind = Rewind(self._cache)
        self._ids = list(prompt)
        self._prompt = len(prompt)
        self._read = 0
        self._tried: list[int] = []
        """Drafts that have been run through the draft model, of which it is not known yet whether they held."""

    def read(self, ids: Sequence[int]) -> None:
        """See `Drafter.read`."""
        self._read += len(ids)
        end = min(self._read, self._limit)
        while self._held < end:
            piece = self._ids[self._held : min(end, self._held + self._chunk)]
            forward(self._model, self._tensor(piece), self._cache)
            self._held += len(piece)

    def draft(self, new: Sequence[int], count: int) -> Sequence[int]:
        """See `Drafter.draft`."""
        self._held += common_prefix(self._tried, new)
        self._tried = []
        self._ids += new
        count = min(count, self._limit - len(self._ids))
        if count < 1:
            return ()
        self._rewind.to(self._held)
        chosen: list[torch.Tensor] = []
        pending = self._tensor(self._ids[self._held :])
        for _ in range(count):
            logits = forward(self._model, pending, self._cache)
            # Ids stay on the device until all are drafted: asking for each would stop it `count` times.
            chosen.append(pending := logits[:, : self._drawn].argmax(-1, keepdim=True))
        drafts: list[int] = torch.cat(chosen, dim=1)[0].tolist()
        self._held, self._tried = len(self._ids), drafts[:-1]
        return drafts

    def settle(self, tokens: int) -> None:
        """See `Drafter.settle`: what it has read of the conversation is kept for the next request."""
        kept = min(self._held, max(tokens, self._prompt))
        self._rewind.end(kept)
        self._live.keep((tuple(self._ids[:kept]),), 0.0)

    def _tensor(self, ids: Sequence[int]) -> torch.Tensor:
        """Ids (1, n), those that the draft model has no embedding for replaced: a wrong draft does no harm."""
        return torch.tensor([ids], device=self._model.device).clamp(max=self._own_ids - 1)
