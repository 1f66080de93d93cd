"""How close the logits of one step have to be to those of an eager one before its path is used."""

from typing import Any

import torch

from llmcli.engine.cache import new_cache
from llmcli.engine.decode.eager import forward
from llmcli.errors import LlmcliError

TRIAL_TOKENS = 8
"""Tokens that the cache holds when a step is tried."""

_TOLERANCE = {torch.float32: 1e-3}
_TOLERANCE_16_BIT = 0.35
"""Standard deviation of the difference ÷ that of the logits.

Code for another model, or for another order of weights, is off by 1 and more; rounding in 16 bits by 0.01 as a rule,
and by 0.15 on a few tokens without meaning.
"""


def require_agreement(got: torch.Tensor, want: torch.Tensor, what: str) -> None:
    """Raise LlmcliError when logits (rows, vocabulary) are not those that eager decoding gives; `what` made them."""
    allowed = _TOLERANCE.get(want.dtype, _TOLERANCE_16_BIT)
    off = float((got.float() - want.float()).std() / want.float().std())
    if not off <= allowed:
        raise LlmcliError(f"{what} answers differently from an eager step (by {off:.2g} of the spread)")


class Trial:
    """A few tokens to try a step of a model with. last: the ids (rows, 1) that come after those of the cache."""

    def __init__(self, model: Any, rows: int, limit: int | None = None) -> None:
        """limit: the most tokens that caches will be asked to hold; None: not known."""
        vocabulary = model.config.get_text_config(decoder=True).vocab_size
        ids = torch.arange(rows * (TRIAL_TOKENS + 1), device=model.device).view(rows, -1) % vocabulary
        self.model = model
        self._first, self.last = ids[:, :TRIAL_TOKENS], ids[:, TRIAL_TOKENS:]
        self._limit = limit

    def filled(self) -> Any:
        """A new cache that holds the tokens before."""
        cache = new_cache(self.model.config, self._limit)
        forward(self.model, self._first, cache)
        return cache
