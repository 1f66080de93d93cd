"""A program at work on a cache."""

from typing import Any

import torch

from llmcli.engine.decode.graphs import Graphs
from llmcli.engine.decode.program import next_rows
from llmcli.engine.decode.static_step import Window
from llmcli.engine.decode.step import own_layers
from llmcli.engine.sample import Sampler


class Running:
    """Replays steps on the K and V of a cache, and knows without asking the device which rows they have come to.

    under_way: steps that were launched and whose ids were not received.
    """

    def __init__(self, graphs: Graphs, cache: Any, sampler: Sampler, batch: int, tokens: int) -> None:
        """tokens: how many the first step will bring, prompt included. Raises CaptureFailed."""
        self._graphs = graphs
        self._cache = cache
        self._sampler = sampler
        self._layers = own_layers(cache)
        self._program = graphs.program(batch)
        self._bucket = graphs.bucket(self._program, tokens)
        self._choose = graphs.choice(self._program, sampler)
        self._program.adopt(cache, self._bucket)
        self._tokens = 0
        self._uncounted = 0
        self._rows: dict[Window, int] = {}
        self.under_way = 0

    @property
    def random(self) -> torch.Generator:
        """Where ids are drawn."""
        return self._program.random

    def start(self, ids: torch.Tensor) -> None:
        """Let the first step be that of `ids` (rows,), after all tokens that the cache holds."""
        self._program.adopt(self._cache, self._bucket)
        self._program.start(ids, self._sampler)
        self._tokens = self._layers[0].get_seq_length()
        self._place()

    @property
    def may_launch(self) -> bool:
        """Whether the next step needs no capture."""
        return not self._full() or self._program.has(self._tokens + 1)

    def launch(self) -> None:
        """Start a step. Raises CaptureFailed, only where `may_launch` was not so."""
        if full := self._full():
            self._make_room(full)
        self._bucket.forward()
        self._program.mail.hold()
        self._choose()
        self._program.mail.send(self._program.chosen)
        self._rows = {window: row + 1 for window, row in self._rows.items()}
        self._tokens += 1
        self._uncounted += 1
        self.under_way += 1

    def receive(self) -> list[int]:
        """The ids of the oldest step under way, -1 where its logits were no finite numbers; waits for them."""
        self.under_way -= 1
        return self._program.mail.receive()

    def settle(self, tokens: int | None = None) -> None:
        """Count what was written as held by the cache: of all tokens the first `tokens`."""
        beyond = 0 if tokens is None else self._tokens - tokens
        if (count := self._uncounted - beyond) > 0:
            for layer in self._layers:
                layer.wrote(count)
        self._uncounted = 0

    def _full(self) -> set[Window]:
        return {window for window, row in self._rows.items() if row == self._bucket.rows[window]}

    def _make_room(self, full: set[Window]) -> None:
        """Move on to a larger bucket, or windows that have come to the end of their buffers back to the start."""
        self.settle()
        bucket = self._graphs.bucket(self._program, self._tokens + 1)
        if bucket is self._bucket:
            for layer in self._layers:
                if layer.window in full:
                    layer.reserve(1)
        else:
            self._bucket = bucket
            self._program.adopt(self._cache, bucket)
        self._place()

    def _place(self) -> None:
        self._rows = next_rows(self._layers)
        self._program.place(self._tokens, self._rows)
