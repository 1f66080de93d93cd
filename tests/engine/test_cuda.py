"""The loop on a CUDA device: the same answers as on the CPU."""

import threading

import pytest
import torch
from tiny_models import engine_of, greedy, tiny_model

from llmcli.inference import GenerateRequest, Piece

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
PROMPT = tuple(range(2, 39))


def ids_on(device, model_type):
    engine = engine_of(tiny_model(model_type).to(device), chunk=16)
    request = GenerateRequest(PROMPT, greedy(12), ignore_eos=True)
    events = list(engine.generate(request, threading.Event()))
    return [event.token_id for event in events if isinstance(event, Piece)], events[-1].trace


@pytest.mark.parametrize("model_type", ["llama", "qwen3", "gemma3_text", "gpt2", "mixtral"])
def test_cuda_answers_as_the_cpu(model_type):
    on_cpu, _ = ids_on("cpu", model_type)
    on_cuda, trace = ids_on("cuda", model_type)
    assert on_cuda == on_cpu
    assert trace.peak_bytes > 0
    assert trace.error is None
