"""Captured steps, each started before the host knows the ids of the one before it."""

from collections.abc import Sequence
from typing import Any

import torch

from llmcli.engine.decode.eager import EagerPath, forward
from llmcli.engine.decode.graphs import CaptureFailed, Graphs
from llmcli.engine.decode.path import Ids
from llmcli.engine.decode.running import Running
from llmcli.engine.sample import Sampler, known
from llmcli.inference import DecodeName


class GraphPath:
    """The device goes from step to step by itself, and the host follows one step behind.

    So one step more may have begun than the answer needs. It is counted in `steps`, nobody waits for it, and its K and
    V are not counted as held. A step that has to be captured first begins only when it is needed. Where a capture
    fails, the rest of the answer is decoded eagerly.
    """

    @torch.inference_mode()
    def __init__(self, graphs: Graphs, cache: Any, sampler: Sampler, prompt: torch.Tensor) -> None:
        """`cache` is empty or holds the start of `prompt` (rows, n). Captures what the first step needs."""
        self._model = graphs.model
        self._cache = cache
        self._sampler = sampler
        self._first: torch.Tensor | None = None
        self._made: list[Ids] = []
        self._running: Running | None = None
        self._eager: EagerPath | None = None
        self.name: DecodeName = "graph"
        self.steps = self.drafted = self.accepted = 0
        try:
            self._running = Running(graphs, cache, sampler, len(prompt), prompt.shape[1] + 1)
        except CaptureFailed:
            self._go_on_eagerly()

    def prefill(self, ids: torch.Tensor) -> torch.Tensor:
        """See `DecodePath.prefill`."""
        return forward(self._model, ids, self._cache)

    def first(self, logits: torch.Tensor) -> Ids:
        """See `DecodePath.first`."""
        self._first = self._sampler.choose(logits)
        return known(self._first.tolist())

    def step(self, last: Ids) -> Sequence[Ids]:
        """See `DecodePath.step`; `last` are the ids that were returned last."""
        if self._running is not None:
            try:
                self._launch(self._running)
                self._made.append(known(self._running.receive()))
                return self._made[-1:]
            except CaptureFailed:
                self._take_over(self._running)
        if self._eager is None:
            raise AssertionError("one of the two runs")
        self.steps += 1
        return self._eager.step(last)

    def _launch(self, running: Running) -> None:
        """Start the step whose ids are asked for, unless it is under way, and the one after it."""
        if self._first is not None:
            running.start(self._first)
            self._first = None
        while running.under_way == 0 or (running.under_way == 1 and running.may_launch):
            running.launch()
            self.steps += 1

    def _take_over(self, running: Running) -> None:
        """Decode on eagerly, after what was replayed; nothing is under way where a capture failed."""
        running.settle()
        self._sampler.resume(self._made, running.random)
        self._go_on_eagerly()

    def _go_on_eagerly(self) -> None:
        self._running = None
        self._eager = EagerPath(self._model, self._cache, self._sampler)
        self.name = "eager"

    @torch.inference_mode()
    def settle(self, tokens: int) -> None:
        """See `DecodePath.settle`."""
        if self._running is not None:
            self._running.settle(tokens)
