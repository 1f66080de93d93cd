"""Caches and layouts that only a CUDA device has: the same answers as without them."""

import threading

import pytest
import torch
from tiny_models import engine_of, greedy, saved_model, tiny_model

from llmcli.engine.local import LocalEngine
from llmcli.engine.thread import InferenceThread
from llmcli.inference import GenerateRequest, LoadRequest, Piece

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
PROMPT = tuple(range(2, 39))


def answers(engine):
    """Ids and trace of a request, and of one that continues its cache."""
    prompt, said = PROMPT, []
    for _ in range(2):
        request = GenerateRequest(prompt, greedy(12), ignore_eos=True, reuse_cache=True)
        events = list(engine.generate(request, threading.Event()))
        ids = [event.token_id for event in events if isinstance(event, Piece)]
        said.append((ids, events[-1].trace))
        prompt = (*prompt, *ids, 50, 51)
    engine.close()
    return said


@pytest.mark.parametrize("model_type", ["llama", "gemma3_text"])
def test_an_offloaded_cache_answers_as_one_on_the_gpu(model_type):
    model = tiny_model(model_type).to("cuda")
    plain, offloaded = answers(engine_of(model)), answers(engine_of(model, kv_offload=True))
    for (ids, trace), (want, on_gpu) in zip(offloaded, plain, strict=True):
        assert trace.error is None
        assert ids == want
        assert (trace.kv_bytes, trace.cached) == (on_gpu.kv_bytes, on_gpu.cached)


def test_a_quantized_cache_runs_on_the_gpu():
    model = tiny_model("llama")
    on_gpu = answers(engine_of(tiny_model("llama").to("cuda"), kv_dtype="fp8"))
    for (_, trace), (_, want) in zip(on_gpu, answers(engine_of(model, kv_dtype="fp8")), strict=True):
        assert trace.error is None
        assert (trace.kv_bytes, trace.cached) == (want.kv_bytes, want.cached)


def test_layers_on_all_devices_answer_as_on_one(tmp_path):
    folder = saved_model(tmp_path)
    one, spread = (
        LocalEngine.load(LoadRequest(folder, "tiny", "test", device="auto", spread=spread), InferenceThread())
        for spread in (False, True)
    )
    for (ids, trace), (want, _) in zip(answers(spread), answers(one), strict=True):
        assert ids == want
        assert trace.peak_bytes > 0
