"""How vLLM cuts its pool into pages: one size for all layers, and groups of layers that share a table of them.

Read in vLLM 0.33.0: v1/kv_cache_interface.py (pages and blocks of each kind of layer), v1/core/kv_cache_planning.py
(get_kv_cache_groups and what it calls), platforms/interface.py (_align_hybrid_block_size).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from llmcli.estimate.layers import LayerSpec

PADDING = "padding"
Policy = Literal["full", "sliding", "chunked", "cross", "state"]


@dataclass(frozen=True, slots=True)
class Held:
    """What one cache layer holds: `row` bytes per token, or `state` bytes. tokens: of the window or chunk, or encoded.

    block: tokens per page, set while pages are made equal.
    """

    kind: str
    policy: Policy
    row: int = 0
    tokens: int = 0
    state: int = 0
    block: int = 0


@dataclass(frozen=True, slots=True)
class Pool:
    """The settings that pages follow from, in tokens. in_flight: scheduled and not yet settled.

    alignment: a block that is enlarged is a multiple of it. states: pages per sequence and recurrent layer.
    """

    block: int
    alignment: int
    in_flight: int
    states: int

    def layers(self, held: Sequence[Held]) -> Iterator[LayerSpec]:
        """The layers of the pool, in the order of their groups; layers that only fill a group up are `padding`."""
        if not held:
            return
        if self._alike(held):
            yield from (self._spec(replace(one, block=self.block), 1) for one in held)
            return
        equal = self._equal_pages(held)
        counts = Counter(equal)
        size = _group_size(list(counts.values()))
        for one, count in counts.items():
            spec = self._spec(one, self.states)
            yield from (spec,) * count
            yield from (replace(spec, kind=PADDING),) * (-count % size)

    def _alike(self, held: Sequence[Held]) -> bool:
        """Whether all layers need the same tokens, so that each may have pages of its own size."""
        return len({(one.policy, one.tokens) for one in held}) == 1

    def _equal_pages(self, held: Sequence[Held]) -> list[Held]:
        """The same layers with one size of page: smaller rows get longer blocks, others are padded."""
        rows = [one.row for one in held if one.row]
        state = max(one.state for one in held)
        block = self.block
        if state and rows:
            block = max(block, self.alignment * -(-state // (self.alignment * rows[0])))
        page = max(block * max(rows, default=0), state)
        return [_paged(one, page, block) for one in held]

    def _spec(self, one: Held, states: int) -> LayerSpec:
        if one.policy == "state":
            return LayerSpec(one.kind, 0, state_bytes=one.state * states)
        if one.policy == "cross":
            return LayerSpec(one.kind, 0, state_bytes=-(-one.tokens // one.block) * one.block * one.row)
        most = {"full": None, "sliding": one.tokens - 1 + self.in_flight, "chunked": one.tokens + self.in_flight}
        held = most[one.policy]
        spare = one.block if one.policy == "sliding" else 0
        return LayerSpec(one.kind, one.row, max_tokens=held, peak_tokens=held, granule=one.block, spare=spare)


def _paged(one: Held, page: int, block: int) -> Held:
    if one.policy == "state":
        return replace(one, state=page)
    ratio, rest = divmod(page, one.row * block)
    if rest:
        return replace(one, row=page // block, block=block)
    return replace(one, block=block * ratio)


def _group_size(counts: Sequence[int]) -> int:
    """Layers per group: those of the rarest kind, or of the most frequent where they are nearly as many."""
    least, most = min(counts), max(counts)
    return most if most < least * 1.5 else least
