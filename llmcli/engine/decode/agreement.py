"""How close the logits of one step have to be to those of an eager one before its path is used."""

import torch

from llmcli.errors import LlmcliError

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
