"""Where drafts come from, and how many are asked for."""

from collections.abc import Sequence
from typing import Protocol


class Drafter(Protocol):
    """Guesses the next ids of one request.

    most: the most drafts that pay in one step.
    """

    most: int

    def read(self, ids: Sequence[int]) -> None:
        """Take in the next ids of the prompt; called while the model reads it."""
        ...

    def draft(self, new: Sequence[int], count: int) -> Sequence[int]:
        """Take in ids of the answer, and guess at most `count` that follow; none where there is nothing to go by."""
        ...

    def settle(self, tokens: int) -> None:
        """End the request: of all ids, the first `tokens` have become part of the conversation."""
        ...


class DraftLength:
    """How many drafts the next step asks for: twice as many while all of them hold, else one more than have held.

    A draft costs the arithmetic of one more position whether it holds or not, so where drafts fail only one is tried.
    """

    def __init__(self, most: int, start: int = 4) -> None:
        self._most = most
        self.count = min(start, most)

    def learn(self, drafted: int, held: int) -> None:
        """Adapt to a step in which `held` of `drafted` drafts held; nothing is learnt from a step without drafts."""
        if drafted:
            self.count = min(self._most, 2 * self.count if held == drafted else held + 1)
