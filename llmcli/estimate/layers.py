"""What each layer holds in one engine's KV cache, in bytes.

One specification per layer, equal neighbours and strangers alike gathered into groups. All sizes are those of one
sequence. They never shrink when the sequence grows, but for one: what waits for a compressed row is given up for it.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

FULL_ATTENTION = "full_attention"
SLIDING_ATTENTION = "sliding_attention"
CHUNKED_ATTENTION = "chunked_attention"
INDEXED_ATTENTION = "indexed_attention"
CROSS_ATTENTION = "cross_attention"
LINEAR_ATTENTION = "linear_attention"
CONV = "conv"
HYBRID = "hybrid"
HYBRID_SLIDING = "hybrid_sliding"
NO_CACHE = "none"


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """One layer's share of the cache, for one sequence.

    kind: transformers' name of the layer type. row_bytes: of one held row. max_tokens: the most tokens held once decode
    has begun; None holds all. state_bytes: held whatever the length. peak_tokens: the most tokens held at the end of
    prefill, None: the whole prompt. granule: rows are reserved in multiples of it, and `spare` of them more.
    stride: tokens per row. pending_bytes: of each token whose row is not complete; at the end of prefill, of all
    that were read at once.
    overlap_bytes: held beside the rows as soon as there is one.
    chunk: prompt tokens per forward, where the prompt is read in pieces: with a window, the most that is held while it
    is read are the rows before a piece and the piece itself. tail_tokens: the last tokens may be held unquantized,
    `tail_bytes` each. shared_bytes: held once for all sequences. reserve: rows that are reserved beyond `max_tokens`,
    as far as there are tokens for them.
    """

    kind: str
    row_bytes: int
    max_tokens: int | None = None
    state_bytes: int = 0
    peak_tokens: int | None = None
    granule: int = 1
    spare: int = 0
    stride: int = 1
    pending_bytes: int = 0
    overlap_bytes: int = 0
    chunk: int | None = None
    tail_tokens: int = 0
    tail_bytes: int = 0
    shared_bytes: int = 0
    reserve: int = 0

    def steady_bytes(self, tokens: int) -> int:
        """Bytes after at least one decode step with `tokens` held; the most where some may be unquantized."""
        tail, pending = min(tokens, self.tail_tokens), tokens % self.stride
        held = tokens - tail if self.max_tokens is None else min(tokens - tail, self.max_tokens)
        return self._bytes(held) + tail * self.tail_bytes + pending * self.pending_bytes

    def allocated_bytes(self, tokens: int) -> int:
        """Bytes of the buffers that hold `tokens` after at least one decode step, where no more are to be held."""
        spare = 0 if self.max_tokens is None else max(0, min(tokens - self.max_tokens, self.reserve))
        return self.steady_bytes(tokens) + spare * self.row_bytes

    def peak_bytes(self, tokens: int) -> int:
        """Bytes at the end of a prefill of `tokens`; in pieces, the most that each part takes after any."""
        return max(
            self.steady_bytes(tokens),
            self._bytes(self._read(tokens) if self.peak_tokens is None else min(tokens, self.peak_tokens))
            + self._pending(tokens) * self.pending_bytes,
        )

    def largest_bytes(self, tokens: int) -> int:
        """The larger of both."""
        return max(self.peak_bytes(tokens), self.allocated_bytes(tokens))

    def _pending(self, tokens: int) -> int:
        """The most tokens that wait for their rows at once: those of a piece, and those that the one before left."""
        if self.chunk is None or self.chunk >= tokens:
            return tokens
        whole, rest = divmod(tokens, self.chunk)
        pieces = min(whole, self.stride // math.gcd(self.chunk, self.stride))  # what they find waiting repeats
        found = max(piece * self.chunk % self.stride for piece in range(pieces))
        return max(found + self.chunk, whole * self.chunk % self.stride + rest)

    def _read(self, tokens: int) -> int:
        """The most tokens held at once while a prompt of `tokens` is read."""
        if self.max_tokens is None or self.chunk is None or self.chunk >= tokens:
            return tokens
        whole, rest = divmod(tokens, self.chunk)
        return max(
            min((whole - 1) * self.chunk, self.max_tokens) + self.chunk,
            min(whole * self.chunk, self.max_tokens) + rest,
        )

    def _bytes(self, tokens: int) -> int:
        rows = -(-(tokens // self.stride) // self.granule) * self.granule + self.spare
        return rows * self.row_bytes + self.state_bytes + (self.overlap_bytes if rows else 0)

    @property
    def fixed_bytes(self) -> int:
        """Bytes that do not depend on the length, once there are rows."""
        return self.state_bytes + self.overlap_bytes + self.shared_bytes

    @property
    def token_bytes(self) -> int:
        """Bytes that one more token costs while all of them are held, on average over `stride`."""
        return self.row_bytes // self.stride


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """`count` layers with the same specification."""

    spec: LayerSpec
    count: int


Layers = tuple[LayerGroup, ...]


def merged(specs: Sequence[LayerSpec]) -> tuple[LayerSpec, ...]:
    """What one layer holds as one specification; as several where its rows are counted in different ways."""
    if not specs:
        return (LayerSpec(NO_CACHE, 0),)
    kind = "+".join(dict.fromkeys(spec.kind for spec in specs))
    states = sum(spec.state_bytes for spec in specs)
    rows: dict[LayerSpec, int] = {}
    for spec in specs:
        if spec.row_bytes:
            way = replace(spec, kind=kind, row_bytes=0, state_bytes=0)
            rows[way] = rows.get(way, 0) + spec.row_bytes
    ways = [replace(way, row_bytes=size) for way, size in rows.items()] or [LayerSpec(kind, 0)]
    return (replace(ways[0], state_bytes=states), *ways[1:])


def grouped(specs: Iterable[LayerSpec]) -> Layers:
    """Equal layers as one group, in the order in which they first appear."""
    return tuple(LayerGroup(spec, count) for spec, count in Counter(specs).items())


def steady_bytes(layers: Layers, tokens: int) -> int:
    """KV bytes of one sequence that holds `tokens` after decode has begun."""
    return sum(group.count * group.spec.steady_bytes(tokens) for group in layers)


def allocated_bytes(layers: Layers, tokens: int) -> int:
    """KV bytes that one sequence of `tokens` reserves once decode has begun."""
    return sum(group.count * group.spec.allocated_bytes(tokens) for group in layers)


def peak_bytes(layers: Layers, tokens: int) -> int:
    """KV bytes of one sequence at the end of a prefill of `tokens`."""
    return sum(group.count * group.spec.peak_bytes(tokens) for group in layers)


def shared_bytes(layers: Layers) -> int:
    """KV bytes that do not grow with the number of sequences."""
    return sum(group.count * group.spec.shared_bytes for group in layers)


def in_chunks(layers: Layers, chunk: int) -> Layers:
    """The same layers when the prompt is read in pieces of `chunk` tokens."""
    return tuple(replace(group, spec=replace(group.spec, chunk=chunk)) for group in layers)


def first_token_bytes(layers: Layers) -> int:
    """Bytes that a token costs while the context is short: every layer keeps it."""
    return sum(group.count * group.spec.token_bytes for group in layers)


def asymptotic_token_bytes(layers: Layers) -> int:
    """Bytes that a token costs once all windows are full."""
    return sum(group.count * group.spec.token_bytes for group in layers if group.spec.max_tokens is None)


def fixed_bytes(layers: Layers) -> int:
    """What one sequence takes beside `asymptotic_token_bytes` per token once all windows are full.

    States of a fixed size and full windows: the intercept of the line that sizes follow in the long run.
    """
    step = math.lcm(*(group.spec.granule * group.spec.stride for group in layers))
    windows = [group.spec.max_tokens or group.spec.tail_tokens for group in layers]
    tokens = step * (max(windows, default=0) // step + 1)
    held = steady_bytes(layers, tokens) + shared_bytes(layers)
    return held - tokens * asymptotic_token_bytes(layers)
