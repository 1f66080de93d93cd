"""Requests of one conversation, once on the cache of the earlier ones and once each on a fresh one."""

import dataclasses
import threading
from dataclasses import dataclass

import torch
from tiny_models import engine_of, greedy

from llmcli.inference import GenerateRequest, Piece, PrefillProgress

NEAR_TIE = 1e-4


class After:
    """A cancel that ends a request after n steps; a step is a chunk of the prompt or a generated token."""

    def __init__(self, steps):
        self.left = steps

    def is_set(self):
        self.left -= 1
        return self.left < 0


@dataclass
class Answer:
    """What a request did: its ids, the logits (n, vocabulary) they were chosen from, the ids forwarded for it."""

    ids: list
    logits: torch.Tensor
    forwarded: list
    progress: list
    trace: object


class Conversation:
    """A model with an engine that reuses its cache, and a second one for the same requests without."""

    def __init__(self, model, tokenizer=None, *, chunk=4, clock=None):
        self.reusing = engine_of(model, tokenizer, chunk=chunk, clock=clock)
        self.whole = engine_of(model, tokenizer)
        self.forwards = []
        self.held = []
        """The ids that were forwarded into the cache, by what the model was really given."""
        self._hook = model.register_forward_hook(self._record, with_kwargs=True)

    def _record(self, _model, _args, kwargs, output):
        self.forwards.append((kwargs["input_ids"][0].tolist(), output.logits[0, -1].clone()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._hook.remove()
        self.reusing.close()
        self.whole.close()

    def ask(self, prompt, *, tokens=5, cancel=None, stop=(), chunk=None, **sampling):
        """Continue the cache."""
        if chunk is not None:
            self.reusing._loaded = dataclasses.replace(self.reusing._loaded, chunk=chunk)
        request = GenerateRequest(tuple(prompt), greedy(tokens, **sampling), stop, reuse_cache=True)
        answer = self._run(self.reusing, request, cancel or threading.Event())
        if answer.trace.prefill_started is not None:
            self.held = [*self.held[: answer.trace.cached], *answer.forwarded]
        return answer

    def fresh(self, prompt, *, tokens=5, **sampling):
        """The same on an empty cache, the prompt in one piece."""
        return self._run(self.whole, GenerateRequest(tuple(prompt), greedy(tokens, **sampling)), threading.Event())

    def both(self, prompt, *, cancel=None, chunk=None, **more):
        """Continue the cache, and assert that the answer is the one of an empty cache."""
        answer = self.ask(prompt, cancel=cancel, chunk=chunk, **more)
        assert answer.trace.error is None
        same(answer, self.fresh(prompt, **more))
        return answer

    def _run(self, engine, request, cancel):
        self.forwards.clear()
        events = list(engine.generate(request, cancel))
        ids = [event.token_id for event in events if isinstance(event, Piece)]
        logits = [row for _, row in self.forwards[len(self.forwards) - len(ids) :]]
        return Answer(
            ids,
            torch.stack(logits) if logits else torch.empty(0, 1),
            [i for forwarded, _ in self.forwards for i in forwarded],
            [(e.evaluated, e.total) for e in events if isinstance(e, PrefillProgress)],
            events[-1].trace,
        )


def same(answer, fresh):
    """The law: equal logits, and equal ids as far as no near tie lets them part."""
    for i, got in enumerate(answer.logits):
        want = fresh.logits[i]
        scale = max(1.0, want.abs().max().item())
        assert (got - want).abs().max().item() <= 1e-5 * scale
        best, second = want.topk(2).values
        if best - second <= NEAR_TIE:
            return
        assert answer.ids[i] == fresh.ids[i]
