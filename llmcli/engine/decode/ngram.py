"""Drafts from what prompt and answer say already."""

from collections.abc import Sequence

LONGEST, SHORTEST = 4, 2
"""Ids of an n-gram: a match of one id says too little about the next one."""


class NgramDrafter:
    """Looks up where the last ids stood before, and proposes what followed them there.

    Source: prompt lookup decoding (https://github.com/apoorvumang/prompt-lookup-decoding). Of all n-grams that end the
    conversation the longest one that occurred before is taken, and its latest occurrence. A continuation that reaches
    the end of what is known goes on with itself, as a repetition does. Every n-gram is indexed once, when the id after
    it is known, so a step takes the same time at any length.
    """

    most = 16

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}
        """Each n-gram to the position that follows its latest occurrence."""

    def read(self, ids: Sequence[int]) -> None:
        """See `Drafter.read`."""
        known = self._ids
        for token_id in ids:
            end = len(known)
            for length in range(SHORTEST, min(LONGEST, end) + 1):
                self._after[tuple(known[end - length :])] = end
            known.append(token_id)

    def draft(self, new: Sequence[int], count: int) -> Sequence[int]:
        """See `Drafter.draft`."""
        self.read(new)
        at = self._match()
        if at is None:
            return ()
        drafts = self._ids[at : at + count]
        period = len(self._ids) - at
        drafts += [drafts[i % period] for i in range(len(drafts), count)]
        return drafts

    def _match(self) -> int | None:
        for length in range(min(LONGEST, len(self._ids)), SHORTEST - 1, -1):
            if (at := self._after.get(tuple(self._ids[-length:]))) is not None:
                return at
        return None

    def settle(self, tokens: int) -> None:
        """See `Drafter.settle`; the index belongs to one request."""
