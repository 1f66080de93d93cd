"""Captured steps without a GPU: what would be recorded is called again instead."""

import dataclasses
from collections import deque

from tiny_models import engine_of

from llmcli.engine.decode.graphs import Graphs

WARM_UPS = 2


class DirectMail:
    """Keeps ids until they are asked for."""

    def __init__(self):
        self._waiting = deque()

    def hold(self):
        pass

    def send(self, ids):
        self._waiting.append(ids.tolist())
        assert len(self._waiting) <= 2, "no more than two steps are under way"

    def receive(self):
        return self._waiting.popleft()

    def discard(self):
        self._waiting.clear()


class DirectRecorder:
    """Runs work as often as a capture would, and fails from the `fail_from`-th one on."""

    def __init__(self, fail_from=None):
        self.records = 0
        self._fail_from = fail_from

    def __call__(self):
        return self

    def record(self, work, random=None):
        for _ in range(WARM_UPS):
            work()
        self.records += 1
        if self._fail_from is not None and self.records >= self._fail_from:
            raise RuntimeError("operation not permitted when stream is capturing")
        return work

    def mail(self, rows):
        return DirectMail()


def graph_engine(model, tokenizer=None, *, recorder=None, **more):
    """An engine whose decode steps go through `Graphs`."""
    engine = engine_of(model, tokenizer, **more)
    graphs = Graphs(model, recorder or DirectRecorder())
    info = dataclasses.replace(engine.info, decode_path="graph")
    engine._loaded = dataclasses.replace(engine._loaded, graphs=graphs, info=info)
    return engine
