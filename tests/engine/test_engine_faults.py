"""A failure ends its request, is reported, gives its memory back, and leaves the next request as it would have been."""

import threading
import weakref

import pytest
import torch
from conversations import Conversation, same
from tiny_models import byte_tokenizer, engine_of, greedy, tiny_model

from llmcli.engine import device as devices
from llmcli.errors import EngineFault, LlmcliError, OutOfMemory
from llmcli.inference import GenerateRequest

FIRST = list(range(2, 13))
IN_PREFILL, IN_DECODE = 1, 4
OOM = torch.OutOfMemoryError("CUDA out of memory.")


class Broken:
    """Makes one layer of a model raise at the n-th forward, when the layers before it have updated the cache."""

    def __init__(self, model, error):
        self.error = error
        self.left = None
        self.tensors = []
        model.model.layers[1].register_forward_pre_hook(self._count, with_kwargs=True)

    def _count(self, _layer, _args, kwargs):
        if self.left is None:
            return
        if self.left == 0:
            self.left = None
            cache = kwargs["cache"]
            assert len({layer.get_seq_length() for layer in cache.layers}) == 2, "no layer is ahead"
            self.tensors = [weakref.ref(tensor) for layer in cache.layers for tensor in (layer.keys, layer.values)]
            raise self.error
        self.left -= 1


def alive(broken):
    return [kept for kept in broken.tensors if kept() is not None]


@pytest.mark.parametrize("at", [IN_PREFILL, IN_DECODE])
@pytest.mark.parametrize(
    ("error", "reason", "kind"), [(RuntimeError("boom"), "error", EngineFault), (OOM, "memory", OutOfMemory)]
)
def test_a_forward_that_fails_leaves_no_cache_and_the_conversation_lives(at, error, reason, kind):
    model = tiny_model("llama")
    broken = Broken(model, error)
    with Conversation(model) as talk:
        first = talk.both(FIRST)
        prompt = [*FIRST, *first.ids, *range(50, 56)]
        broken.left = at
        failed = talk.ask(prompt, tokens=9).trace
        assert (failed.finish_reason, failed.cached) == (reason, 15)
        assert isinstance(failed.error, kind)
        assert failed.generated == (0 if at == IN_PREFILL else 3)
        assert broken.tensors
        assert not alive(broken), "the trace of a failed request keeps its cache"
        after = talk.both(prompt).trace
        assert (after.cached, after.evaluated, after.cache_source) == (0, len(prompt), "none")
        assert (after.cache_age, after.cache_break_at, after.miss_reason) == (None, None, "evicted")
        assert talk.both([*prompt, 60]).trace.cached == len(prompt)


def test_running_out_of_memory_on_a_fresh_cache_frees_it_too():
    model = tiny_model("llama")
    broken = Broken(model, OOM)
    broken.left = IN_DECODE
    engine = engine_of(model)
    trace = list(engine.generate(GenerateRequest(tuple(FIRST), greedy(9)), threading.Event()))[-1].trace
    assert trace.finish_reason == "memory"
    assert len(broken.tensors) == 6
    assert not alive(broken)


def test_memory_is_given_back_only_when_it_ran_out(monkeypatch):
    released = []
    monkeypatch.setattr(devices, "release", released.append)
    model = tiny_model("llama")
    for error, times in ((RuntimeError("boom"), 0), (OOM, 1)):
        with Conversation(model) as talk:
            broken = Broken(model, error)
            broken.left = IN_DECODE
            talk.ask(FIRST, tokens=9)
            assert released == [torch.device("cpu")] * times


def test_a_failure_behind_a_failure_keeps_no_cache_alive():
    model = tiny_model("llama")
    broken = Broken(model, OOM)

    def wrap(call):
        def forward(*args, **kwargs):
            try:
                return call(*args, **kwargs)
            except torch.OutOfMemoryError as error:
                raise RuntimeError("the layer failed") from error

        return forward

    model.model.forward = wrap(model.model.forward)
    with Conversation(model) as talk:
        broken.left = IN_DECODE
        trace = talk.ask(FIRST, tokens=9).trace
        assert trace.finish_reason == "error"
        assert "the layer failed" in trace.error.message
        assert not alive(broken)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_finite_end_one_request(temperature):
    model = tiny_model("llama")
    weight = model.lm_head.weight
    with Conversation(model) as talk:
        first = talk.both(FIRST)
        kept = weight[7].clone()
        weight[7] = float("nan")
        prompt = [*FIRST, *first.ids, 50]
        failed = talk.ask(prompt, temperature=temperature, seed=1).trace
        weight[7] = kept
        assert (failed.finish_reason, failed.generated) == ("error", 0)
        assert isinstance(failed.error, LlmcliError)
        assert "not finite" in failed.error.message
        assert "\n" not in failed.error.message
        after = talk.both(prompt).trace
        assert (after.cached, after.miss_reason) == (0, "evicted")


def test_a_fault_between_two_forwards_ends_one_request(monkeypatch):
    model = tiny_model("llama", vocab_size=258)
    with Conversation(model, byte_tokenizer()) as talk:
        talk.both(FIRST)
        with monkeypatch.context() as patched:
            patched.setattr("llmcli.engine.stop.Stopping.check", lambda *_: 1 / 0)
            failed = talk.ask([*FIRST, 50]).trace
        assert failed.finish_reason == "error"
        assert "ZeroDivisionError" in failed.error.message
        assert talk.both([*FIRST, 50]).trace.miss_reason == "evicted"


def test_a_fault_in_making_text_keeps_the_cache(monkeypatch):
    model = tiny_model("llama", vocab_size=258)
    with Conversation(model, byte_tokenizer()) as talk:
        with monkeypatch.context() as patched:
            patched.setattr("llmcli.engine.detokenize.Detokenizer.add", lambda *_: 1 / 0)
            failed = talk.ask(FIRST, tokens=40)
        assert failed.trace.finish_reason == "error"
        assert list((talk.reusing._live._rows or ((),))[0]) == talk.held
        after = talk.ask([*talk.held, 50])
        assert after.trace.cached == len(talk.held) - 1 - len(after.ids[:-1])
        same(after, talk.fresh([*FIRST, *failed.forwarded[len(FIRST) :], 50]))
