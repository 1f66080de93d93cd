"""What a captured step reads and writes at fixed addresses, for batches of one size."""

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache

from llmcli.engine.decode.recorder import Recorder, Replay
from llmcli.engine.decode.static_step import StaticStep, Window
from llmcli.engine.decode.step import own_layers
from llmcli.engine.kv_rows import RowsLayer, bucket, most_rows
from llmcli.engine.sample import Sampler


@dataclass(frozen=True, slots=True)
class LayerShape:
    """A layer's K and V: its window, (heads, dim) of each, and what they are kept in."""

    window: Window
    keys: tuple[int, int]
    values: tuple[int, int]
    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class Bucket:
    """K and V of all layers with room for some number of tokens, and the recorded forward on them.

    rows: of the buffers, per window. buffers: keys and values (batch, heads, rows, dim) of each layer.
    """

    rows: Mapping[Window, int]
    buffers: Sequence[tuple[torch.Tensor, ...]]
    forward: Replay


def next_rows(layers: Sequence[RowsLayer]) -> dict[Window, int]:
    """Where the next token's K and V go, per window."""
    return {layer.window: layer.first_row + int(layer.keys.shape[-2]) for layer in layers}


def shapes_of(cache: DynamicCache) -> tuple[LayerShape, ...]:
    """The shapes of the layers of a cache that holds something."""
    return tuple(
        LayerShape(
            layer.window,
            (layer.keys.shape[1], layer.keys.shape[3]),
            (layer.values.shape[1], layer.values.shape[3]),
            layer.keys.dtype,
        )
        for layer in own_layers(cache)
    )


class Program:
    """A step in two recorded parts, the forward of a bucket and a choice of ids, with all that they work on.

    The choice leaves id, position and rows as the next forward wants them, so that a replay needs nothing from the
    host. Forwards are recorded once per bucket and choices once per sampling settings, each when first needed, and
    stay. All buckets together take at most twice the memory of the largest.
    """

    def __init__(
        self,
        model: Any,
        shapes: Sequence[LayerShape],
        logits: torch.Tensor,
        recorder: Recorder,
        limit: int | None = None,
    ) -> None:
        """logits: (batch, vocabulary), as the model returns them; its values do not matter. limit: see `Graphs`."""
        batch, device = len(logits), logits.device
        self._shapes = shapes
        self._recorder = recorder
        self._limit = limit
        self._step = StaticStep(model, [shape.window for shape in shapes])
        self._buckets: dict[tuple[int, ...], Bucket] = {}
        self._choices: dict[tuple[float, ...], Replay] = {}
        self._owner: weakref.ref[DynamicCache] | None = None
        self._ids = torch.zeros((batch, 1), dtype=torch.long, device=device)
        self._position = torch.zeros(1, dtype=torch.long, device=device)
        self._rows: dict[Window, torch.Tensor] = {shape.window: torch.zeros_like(self._position) for shape in shapes}
        self._logits = torch.zeros_like(logits)
        self._seen: _Seen | None = None
        self.chosen = torch.zeros(batch, dtype=torch.long, device=device)
        self.random = torch.Generator(device)
        self.mail = recorder.mail(batch)

    @property
    def batch(self) -> int:
        """The sequences of a step."""
        return len(self._ids)

    def has(self, tokens: int) -> bool:
        """Whether the bucket for `tokens` is there."""
        return tuple(self._rows_for(tokens).values()) in self._buckets

    def bucket(self, tokens: int) -> Bucket:
        """The bucket for `tokens`. To make one that is not there, no step may be under way, and `place` has to follow.

        Raises what its recording raises.
        """
        rows = self._rows_for(tokens)
        key = tuple(rows.values())
        if key not in self._buckets:
            self._buckets[key] = self._make(rows)
        return self._buckets[key]

    def _rows_for(self, tokens: int) -> dict[Window, int]:
        rows = bucket(tokens, self._limit)
        return {window: _aligned(rows if window is None else min(rows, most_rows(window))) for window in self._rows}

    def _make(self, rows: Mapping[Window, int]) -> Bucket:
        buffers = [
            tuple(self._empty(rows[shape.window], *pair, shape.dtype) for pair in (shape.keys, shape.values))
            for shape in self._shapes
        ]

        def forward() -> None:
            self._logits.copy_(self._step(self._ids, self._position, self._rows, buffers))

        self.place(0, dict.fromkeys(rows, 0))
        replay = self._recorder.record(forward)
        for pair in buffers:
            for buffer in pair:
                buffer.zero_()
        return Bucket(rows, buffers, replay)

    def _empty(self, rows: int, heads: int, dim: int, dtype: torch.dtype) -> torch.Tensor:
        """Zeros: rows that a mask leaves out weigh 0, and 0 times what happens to lie in memory may be no number."""
        return torch.zeros((self.batch, heads, rows, dim), dtype=dtype, device=self._ids.device)

    def trial(self, cache: DynamicCache, ids: torch.Tensor, into: Bucket) -> torch.Tensor:
        """The logits (rows, vocabulary) of one forward of `ids` (rows, 1) after what `cache` holds."""
        self.adopt(cache, into)
        layers = own_layers(cache)
        self._ids.copy_(ids)
        self.place(layers[0].get_seq_length(), next_rows(layers))
        into.forward()
        return self._logits

    def choice(self, sampler: Sampler) -> Replay:
        """The choice of ids that samplers of these settings make. To record one, `start` has to follow.

        Raises what its recording raises.
        """
        if sampler.settings not in self._choices:
            self._choices[sampler.settings] = self._recorder.record(self._choose(sampler), self._source(sampler))
        return self._choices[sampler.settings]

    def _source(self, sampler: Sampler) -> torch.Generator | None:
        return None if sampler.random is None else self.random

    def _choose(self, sampler: Sampler) -> Replay:
        if sampler.seen is not None and self._seen is None:
            self._seen = _Seen(self._logits)
        seen = self._seen if sampler.seen is not None else None
        pick, random = sampler.pick, self._source(sampler)

        def choose() -> None:
            chosen = pick(self._logits, None if seen is None else seen.ids(), random)
            self.chosen.copy_(chosen)
            # There is no embedding of -1; the host ends the answer when it comes to know.
            self._ids.copy_(chosen.clamp(min=0)[:, None])
            if seen is not None:
                seen.add(self._ids)
            self._position.add_(1)
            for row in self._rows.values():
                row.add_(1)

        return choose

    def start(self, ids: torch.Tensor, sampler: Sampler) -> None:
        """Let the next forward begin with `ids` (rows,), and the choices after it go on as those of `sampler`."""
        self.mail.discard()
        self._ids.copy_(ids.clamp(min=0)[:, None])
        if sampler.random is not None:
            self.random.set_state(sampler.random.get_state())
        if sampler.seen is not None and self._seen is not None:
            self._seen.begin(sampler.seen)

    def place(self, position: int, rows: Mapping[Window, int]) -> None:
        """Let the next forward be that of `position`, its K and V go to `rows`."""
        self._position.fill_(position)
        for window, row in rows.items():
            self._rows[window].fill_(row)

    def adopt(self, cache: DynamicCache, into: Bucket) -> None:
        """Let `cache` keep its tokens in the buffers of a bucket; one that lay in this program before moves out."""
        before = None if self._owner is None else self._owner()
        if before is not None and before is not cache:
            for layer in own_layers(before):
                layer.leave()
        for layer, buffers in zip(own_layers(cache), into.buffers, strict=True):
            layer.move_to(buffers)
        self._owner = weakref.ref(cache)


def _aligned(rows: int) -> int:
    """The rows of a buffer whose masks the kernels of attention take as they are: a multiple of 8."""
    return -(-rows // 8) * 8


class _Seen:
    """The ids that each sequence has had so far, in a shape that does not depend on their number."""

    def __init__(self, logits: torch.Tensor) -> None:
        """logits: (rows, vocabulary)."""
        self._had = torch.zeros_like(logits, dtype=torch.bool)
        self._every = torch.arange(logits.shape[1], device=logits.device)
        self._anchor = torch.zeros((len(logits), 1), dtype=torch.long, device=logits.device)

    def begin(self, ids: torch.Tensor) -> None:
        """Start over with ids (rows, n)."""
        self._had.zero_()
        self.add(ids)
        self._anchor.copy_(ids[:, :1])

    def add(self, ids: torch.Tensor) -> None:
        """Take in more ids (rows, n)."""
        self._had.scatter_(1, ids, True)

    def ids(self) -> torch.Tensor:
        """Ids (rows, vocabulary): all that were had, and one of them again and again in the other places."""
        return torch.where(self._had, self._every, self._anchor)
