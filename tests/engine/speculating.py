"""Engines that speculate, drafters that say what a test tells them to, and the logits behind every id."""

import dataclasses
import random
import threading
import time
from typing import ClassVar

import torch
from conversations import Answer, Conversation
from tiny_models import engine_of, greedy

from llmcli.engine.decode import choose
from llmcli.engine.local import LocalEngine
from llmcli.engine.sample import Sampler
from llmcli.engine.thread import InferenceThread
from llmcli.inference import GenerateRequest, Piece


class Told:
    """Drafts what a test knows to be right, every `wrong`-th id replaced; `asked` keeps how many it was asked for."""

    most = 16

    def __init__(self, answer, wrong=None):
        self.answer, self.wrong = list(answer), wrong
        self.known, self.asked, self.tokens = 0, [], None

    def read(self, ids):
        pass

    def draft(self, new, count):
        self.known += len(new)
        self.asked.append(count)
        right = self.answer[self.known : self.known + count]
        return [
            2 if self.wrong and (self.known + i) % self.wrong == 0 and token != 2 else token
            for i, token in enumerate(right)
        ]

    def settle(self, tokens):
        self.tokens = tokens


class Garbage(Told):
    """Drafts ids at random."""

    def __init__(self):
        super().__init__(())
        self._random = random.Random(5)

    def draft(self, new, count):
        return self._random.choices(range(2, 258), k=count)


def drafting(monkeypatch, drafter):
    """Let every request that looks up its drafts get them from `drafter`."""
    monkeypatch.setattr(choose, "NgramDrafter", lambda: drafter)
    return drafter


def with_draft(model, draft, tokenizer=None, **more):
    """An engine whose drafts come from the model `draft`."""
    engine, other = engine_of(model, tokenizer, **more), engine_of(draft, chunk=3)
    loaded = dataclasses.replace(engine._loaded, draft=other._loaded)
    engine.close()
    other.close()
    return LocalEngine(loaded, InferenceThread(), time.perf_counter)


class Recorded(Sampler):
    """Keeps the logits of every choice, position after position."""

    rows: ClassVar[list] = []
    memoryless = False

    def choose(self, logits):
        self.rows.append(logits[0].clone())
        return super().choose(logits)


def record_choices(monkeypatch):
    monkeypatch.setattr("llmcli.engine.serve.Sampler", Recorded)


def ask(engine, prompt, *, tokens=24, cancel=None, stop=(), reuse=False, ends=False, **sampling):
    """One request: ids, the logits that each was chosen from (with `record_choices`), and the trace."""
    Recorded.rows.clear()
    request = GenerateRequest(tuple(prompt), greedy(tokens, **sampling), stop, reuse_cache=reuse, ignore_eos=not ends)
    events = list(engine.generate(request, cancel or threading.Event()))
    ids = [event.token_id for event in events if isinstance(event, Piece)]
    logits = torch.stack(Recorded.rows[: len(ids)]) if Recorded.rows else torch.empty(0, 1)
    trace = events[-1].trace
    forwarded = [*prompt[trace.cached :][: trace.evaluated], *ids[:-1]]
    return Answer(ids, logits, forwarded, [], trace)


class Speculating(Conversation):
    """A conversation whose engine speculates, beside one that does neither that nor reuse its cache."""

    def __init__(self, model, engine, tokenizer=None):
        super().__init__(model, tokenizer)
        self.reusing.close()
        self.reusing = engine

    def _run(self, engine, request, cancel):
        Recorded.rows.clear()
        events = list(engine.generate(request, cancel))
        ids = [event.token_id for event in events if isinstance(event, Piece)]
        logits = Recorded.rows[: len(ids)]
        trace = events[-1].trace
        forwarded = [*request.prompt[trace.cached :][: trace.evaluated], *ids[:-1]]
        return Answer(ids, torch.stack(logits) if logits else torch.empty(0, 1), forwarded, [], trace)

    def settled(self):
        """Assert that the cache holds exactly what was forwarded and kept."""
        assert list(self.reusing._live._rows[0]) == self.held
        assert {layer.get_seq_length() for layer in self.reusing._live._cache.layers} == {len(self.held)}
