"""The law of the graph path: fixed shapes, replays and running ahead never change an answer."""

import dataclasses
import threading

import pytest
import torch
from conversations import NEAR_TIE, After
from direct_recorder import DirectRecorder, graph_engine
from tiny_models import byte_tokenizer, engine_of, greedy, tiny_model

from llmcli.engine import kv_rows
from llmcli.engine.cache import holds, new_cache
from llmcli.engine.decode.eager import EagerPath
from llmcli.engine.decode.graph import GraphPath
from llmcli.engine.decode.graphs import Graphs
from llmcli.engine.sample import Sampler
from llmcli.errors import LlmcliError
from llmcli.inference import GenerateRequest, Piece
from llmcli.prefill_rules import CONTINUABLE

PROMPT = torch.arange(2, 16).unsqueeze(0)
STEPS = 22
"""From 14 tokens past buffers of 16 and 32 rows; windows of 8 come to the end of their 16 rows twice."""
SAMPLED = {"temperature": 0.9, "top_k": 40, "top_p": 0.95, "min_p": 0.01, "seed": 7}


@pytest.fixture(autouse=True)
def _small_buffers(monkeypatch):
    monkeypatch.setattr(kv_rows, "FIRST_ROWS", 8)
    monkeypatch.setattr(kv_rows, "SPARE_ROWS", 4)


class Watched(Sampler):
    """Makes every choice by `pick`, where it can be watched."""

    memoryless = False


def decode(path, prompt, steps, sampler):
    """Logits (steps + 1, rows, vocabulary) that the ids were chosen from, and the ids."""
    logits, pick = [], sampler.pick
    sampler.pick = lambda scores, seen, random: logits.append(scores.clone()) or pick(scores, seen, random)
    path = path()
    logits.clear()  # of warm-ups
    ids = [path.first(path.prefill(prompt))]
    for _ in range(steps):
        ids += path.step(ids[-1])
    assert path.steps in {steps, steps + 1}
    path.settle(prompt.shape[1] + steps)
    return torch.stack(logits[: steps + 1]), ids


def same(got, want, steps=STEPS):
    """Equal logits and ids, as far as no near tie lets them part."""
    for step in range(steps + 1):
        scale = max(1.0, want[0][step].abs().max().item())
        assert (got[0][step] - want[0][step]).abs().max().item() <= 1e-5 * scale, step
        best, second = want[0][step].topk(2).values.unbind(-1)
        if (best - second).min() <= NEAR_TIE:
            return step
        assert got[1][step] == want[1][step], step
    return steps


@torch.inference_mode()
def law(model, prompt=PROMPT, **sampling):
    caches = new_cache(model.config), new_cache(model.config)
    samplers = [Watched(greedy(**sampling), prompt) for _ in caches]
    want = decode(lambda: EagerPath(model, caches[0], samplers[0]), prompt, STEPS, samplers[0])
    graphs = Graphs(model, DirectRecorder())
    got = decode(lambda: GraphPath(graphs, caches[1], samplers[1], prompt), prompt, STEPS, samplers[1])
    compared = same(got, want)
    assert holds(caches[1], prompt.shape[1] + STEPS)
    return compared


@pytest.mark.parametrize("model_type", sorted(CONTINUABLE))
def test_every_type_answers_as_eager_across_buckets(model_type):
    assert law(tiny_model(model_type)) > 4, "the tiny model decides too little"


@pytest.mark.parametrize(
    "sampling",
    [SAMPLED, {"repetition_penalty": 1.3}, SAMPLED | {"repetition_penalty": 1.2}, {"temperature": 1.0, "seed": 0}],
)
@pytest.mark.parametrize("model_type", ["llama", "gemma3_text"])
def test_sampled_ids_are_those_of_eager(model_type, sampling):
    law(tiny_model(model_type), **sampling)


@pytest.mark.parametrize("model_type", ["llama", "mistral", "gpt_oss"])
def test_rows_of_a_batch_answer_as_eager(model_type):
    rows = torch.stack([PROMPT[0], PROMPT[0].flip(0), PROMPT[0] + 40])
    law(tiny_model(model_type), rows)
    law(tiny_model(model_type), rows, repetition_penalty=1.3, **SAMPLED)


def ask(engine, prompt, tokens=12, *, cancel=None, reuse=True, stop=(), ignore_eos=True, **sampling):
    """The ids and the trace of a request."""
    request = GenerateRequest(tuple(prompt), greedy(tokens, **sampling), stop, ignore_eos=ignore_eos, reuse_cache=reuse)
    events = list(engine.generate(request, cancel or threading.Event()))
    return [event.token_id for event in events if isinstance(event, Piece)], events[-1].trace


class Pair:
    """An engine with captured steps that reuses its cache, beside an eager one that does not."""

    def __init__(self, model, tokenizer=None, **more):
        self.recorder = DirectRecorder()
        self.graph = graph_engine(model, tokenizer, recorder=self.recorder, chunk=4)
        self.eager = engine_of(model, tokenizer, **more)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.graph.close()
        self.eager.close()

    def both(self, prompt, tokens=12, *, cancel=None, **more):
        """The answer, which is that of eager on a fresh cache, and its trace."""
        got, trace = ask(self.graph, prompt, tokens, cancel=cancel, **more)
        want, _ = ask(self.eager, prompt, tokens, reuse=False, **more)
        assert trace.error is None
        assert got == want[: len(got)]
        assert trace.decode_path == "graph"
        if trace.finish_reason != "interrupted":
            assert len(got) == len(want)
        assert trace.steps in ({len(got) - 1, len(got)} if len(got) > 1 else {0})
        return got, trace


@pytest.mark.parametrize("model_type", ["llama", "gemma3_text", "gpt_oss", "mistral", "deepseek_v3", "gemma4_text"])
def test_turns_continue_the_cache_of_captured_steps(model_type):
    with Pair(tiny_model(model_type)) as pair:
        ids = list(range(2, 9))
        for turn in range(3):
            answer, trace = pair.both(ids, 13)
            assert trace.cached == (len(ids) - 3 if turn else 0), "all but the new ids and the last of the answer"
            ids += [*answer, 60 + turn, 70 + turn]
        cut, _ = pair.both(ids, 13, cancel=After(5))
        assert len(cut) == 4
        answer, trace = pair.both([*ids, *cut, 50], 8, temperature=0.8, seed=3)
        assert trace.cached == len(ids) + 3
        again, _ = pair.both([*ids, *cut, 50], 8, temperature=0.8, seed=3)
        assert again == answer
        _, trace = pair.both([*ids[:5], 90, 91], 5)
        assert trace.cached in {0, 5}, "windows that have dropped something are not cropped"
        pair.both(range(30, 75), 5)


def test_nothing_is_captured_twice():
    with Pair(tiny_model("llama")) as pair:
        _, first = pair.both(range(2, 9), 20)
        assert len(first.notices) == 3
        assert first.capture_seconds > 0
        assert all("captured the decode step for up to" in notice for notice in first.notices)
        captured = pair.recorder.records
        assert captured == 4, "buckets of 8, 16 and 32 rows, and the choice"
        for prompt in (range(2, 9), range(50, 60), range(2, 25)):
            _, trace = pair.both(prompt, 6)
            assert (trace.notices, pair.recorder.records) == ((), captured)
        pair.both(range(2, 9), 6, temperature=1.0, seed=4)
        assert pair.recorder.records == captured + 1, "other sampling, another choice"
        pair.both(range(2, 9), 6, temperature=1.0, seed=9)
        assert pair.recorder.records == captured + 1


@torch.inference_mode()
def test_a_cache_that_others_still_hold_moves_out_of_the_buffers():
    model = tiny_model("llama")
    graphs = Graphs(model, DirectRecorder())
    caches = new_cache(model.config), new_cache(model.config)
    kept = []
    for cache, prompt in zip(caches, (PROMPT, PROMPT + 5), strict=True):
        path = GraphPath(graphs, cache, Sampler(greedy(), prompt), prompt)
        ids = path.first(path.prefill(prompt))
        path.step(ids)
        path.settle(15)
        kept.append([layer.keys.clone() for layer in cache.layers])
    for cache, keys in zip(caches, kept, strict=True):
        assert all(torch.equal(layer.keys, before) for layer, before in zip(cache.layers, keys, strict=True))


@pytest.mark.parametrize("context", [9, 16, 17, 24])
def test_the_context_limit_ends_the_answer_at_the_same_id(context):
    with Pair(tiny_model("gpt2", n_positions=context, max_position_embeddings=context)) as pair:
        answer, trace = pair.both(range(2, 9), 30)
        assert (trace.finish_reason, len(answer)) == ("context", context - 7)


def test_an_end_in_the_middle_discards_at_most_one_step():
    with Pair(tiny_model("llama", vocab_size=258), byte_tokenizer()) as pair:
        free, _ = ask(pair.eager, range(2, 9), 12, reuse=False)
        stop = pair.graph._loaded.tokenizer.decode(free[3:5])
        answer, trace = pair.both(range(2, 9), 12, stop=(stop,))
        assert trace.finish_reason == "stop"
        assert len(answer) < 12
        _, trace = pair.both([*range(2, 9), *answer, 40], 6)
        assert trace.cached == 7 + len(answer) - 1


def test_eos_ends_the_answer():
    model = tiny_model("llama")
    with Pair(model) as pair:
        free, _ = ask(pair.eager, range(2, 9), 12, reuse=False)
        for engine in (pair.graph, pair.eager):
            engine._loaded = dataclasses.replace(engine._loaded, eos_ids=frozenset({free[5]}))
        answer, trace = pair.both(range(2, 9), 12, ignore_eos=False)
        assert trace.finish_reason == "eos"
        assert answer == free[: free.index(free[5]) + 1]


@pytest.mark.parametrize("fail_from", [1, 2, 3])
@pytest.mark.parametrize("sampling", [{}, SAMPLED | {"repetition_penalty": 1.3}])
def test_a_capture_that_fails_is_said_once_and_changes_no_answer(fail_from, sampling):
    model = tiny_model("gemma3_text")
    recorder = DirectRecorder(fail_from)
    engine, eager = graph_engine(model, recorder=recorder), engine_of(model)
    got, trace = ask(engine, range(2, 13), 20, **sampling)
    want, _ = ask(eager, range(2, 13), 20, **sampling)
    assert (got, trace.error) == (want, None)
    assert (trace.decode_path, trace.generated) == ("eager", 20)
    assert sum("graphs cannot be used" in notice for notice in trace.notices) == 1
    assert "not permitted when stream is capturing" in trace.notices[-1]
    again, trace = ask(engine, [*range(2, 13), *got, 9], 8)
    assert again == ask(eager, [*range(2, 13), *got, 9], 8)[0]
    assert (trace.decode_path, trace.notices, recorder.records) == ("eager", (), fail_from)
    assert trace.cached == 11 + 19
    engine.close()
    eager.close()


def test_logits_that_are_no_numbers_end_the_request_and_not_the_engine():
    model = tiny_model("llama")
    with Pair(model) as pair:
        pair.both(range(2, 9), 4)
        free, _ = ask(pair.eager, range(2, 9), 12, reuse=False)
        forwards = []

        def poison(_model, _inputs, output):
            forwards.append(1)
            if len(forwards) > 8:
                output.logits.fill_(float("nan"))

        hook = model.register_forward_hook(poison)
        ids, trace = ask(pair.graph, range(2, 9), 12)
        hook.remove()
        assert ids == free[: len(ids)]
        assert 1 < len(ids) < 12
        assert isinstance(trace.error, LlmcliError)
        assert "not finite" in trace.error.message
        pair.both(range(2, 9), 12)
