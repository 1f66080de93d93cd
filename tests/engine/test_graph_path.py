"""The law of the graph path: fixed shapes, replays and running ahead never change an answer."""

import threading

import pytest
import torch
from conversations import NEAR_TIE, After
from direct_recorder import WARM_UPS, DirectRecorder, graph_engine
from tiny_models import Scripted, byte_tokenizer, engine_of, greedy, tiny_model

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
    monkeypatch.setattr(kv_rows, "_SPARE", 4)


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
    samplers = [Sampler(greedy(**sampling), prompt) for _ in caches]
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
