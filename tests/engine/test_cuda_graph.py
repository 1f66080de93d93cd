"""Captured decode steps on a CUDA device: the law against eager, and that the host never holds the device up."""

import dataclasses
import math
import threading

import pytest
import torch
from tiny_models import engine_of, greedy, load_request, tiny_model
from transformers import AutoModelForCausalLM

from llmcli.engine import kv_rows
from llmcli.engine.capturing import with_graphs
from llmcli.engine.decode.cuda_graph import CudaRecorder
from llmcli.engine.decode.eager import forward
from llmcli.engine.decode.graph import GraphPath
from llmcli.engine.decode.graphs import Graphs
from llmcli.engine.quantize import settings_for
from llmcli.engine.sample import Sampler
from llmcli.inference import GenerateRequest, Piece
from llmcli.prefill_rules import CONTINUABLE

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
PROMPT = list(range(2, 16))
SAMPLED = {"temperature": 0.9, "top_k": 40, "top_p": 0.95, "min_p": 0.01, "seed": 7}
ON_THE_HOST = {"phimoe"}
"""Types whose steps cannot be captured, because they make tensors on the host."""


@pytest.fixture
def _small_buffers(monkeypatch):
    monkeypatch.setattr(kv_rows, "FIRST_ROWS", 8)
    monkeypatch.setattr(kv_rows, "SPARE_ROWS", 4)


def on_cuda(model_type, dtype=torch.float32, **more):
    return tiny_model(model_type, **more).to("cuda", dtype)


def pair(model):
    """Engines around one model: with captured steps, and eager."""
    graph, eager = engine_of(model, chunk=16), engine_of(model, chunk=16)
    graph._loaded = graph._thread.call(lambda: with_graphs(graph._loaded, load_request(decode="graph")))
    assert graph._loaded.graphs is not None, graph.info.notices
    return graph, eager


def ask(engine, prompt, tokens=24, **sampling):
    request = GenerateRequest(tuple(prompt), greedy(tokens, **sampling), ignore_eos=True, reuse_cache=True)
    events = list(engine.generate(request, threading.Event()))
    assert events[-1].trace.error is None
    return [event.token_id for event in events if isinstance(event, Piece)], events[-1].trace


@torch.inference_mode()
def require_near(model, prompt, ids, *, tolerance):
    """Every id is what eager takes after the ids before it, or one whose logit is nearer to that than `tolerance`."""
    cache = engine_of(model)._loaded.kv.new(model.config)
    given = torch.tensor([prompt], device=model.device)
    for at, token_id in enumerate(ids):
        logits = forward(model, given, cache)[0].float()
        top = logits.max()
        assert top - logits[token_id] <= tolerance(top.item()), at
        given = torch.tensor([[token_id]], device=model.device)


def four_ulp(top):
    """Of a bfloat16 number as large as `top`."""
    return 4 * 2.0 ** (math.floor(math.log2(max(abs(top), 1e-6))) - 7)


@pytest.mark.usefixtures("_small_buffers")
@pytest.mark.parametrize("model_type", sorted(CONTINUABLE - ON_THE_HOST))
def test_every_type_answers_as_eager_across_buckets(model_type):
    model = on_cuda(model_type)
    if any(way == "grouped_mm" for way in model.get_experts_implementation().values()):
        model.to(torch.bfloat16)  # what eager multiplies experts in
    graph, eager = pair(model)
    ids, trace = ask(graph, PROMPT)
    tolerance = four_ulp if model.dtype == torch.bfloat16 else lambda _top: 1e-4
    require_near(model, PROMPT, ids, tolerance=tolerance)
    assert trace.decode_path == "graph", trace.notices
    assert trace.steps in {23, 24}
    assert trace.capture_seconds > 0
    graph.close()
    eager.close()


@pytest.mark.parametrize("model_type", ["llama", "gemma3_text", "gpt2"])
def test_sixteen_bits_differ_only_on_near_ties(model_type):
    model = on_cuda(model_type, torch.bfloat16)
    graph, eager = pair(model)
    ids, trace = ask(graph, PROMPT, 200)
    require_near(model, PROMPT, ids, tolerance=four_ulp)
    assert trace.decode_path == "graph", trace.notices
    graph.close()
    eager.close()


@pytest.mark.usefixtures("_small_buffers")
@pytest.mark.parametrize("model_type", ["llama", "gemma3_text"])
def test_turns_continue_the_cache_and_nothing_is_captured_twice(model_type):
    model = on_cuda(model_type)
    graph, eager = pair(model)
    ids = list(PROMPT)
    for turn in range(3):
        answer, trace = ask(graph, ids)
        require_near(model, ids, answer, tolerance=lambda _top: 1e-4)
        assert (trace.cached > 0, trace.decode_path) == (turn > 0, "graph")
        ids += [*answer, 60 + turn]
    _, trace = ask(graph, [99, *PROMPT])
    assert (trace.cached, trace.notices) == (0, ())
    graph.close()
    eager.close()


@pytest.mark.parametrize("sampling", [SAMPLED, SAMPLED | {"repetition_penalty": 1.2}])
def test_a_seed_draws_the_same_ids_again_and_as_eager_does(sampling):
    graph, eager = pair(on_cuda("llama"))
    first, trace = ask(graph, PROMPT, **sampling)
    again, _ = ask(graph, PROMPT, **sampling)
    other, _ = ask(graph, PROMPT, **sampling | {"seed": 8})
    want, _ = ask(eager, PROMPT, **sampling)
    assert trace.decode_path == "graph", trace.notices
    assert first == again == want
    assert first != other
    graph.close()
    eager.close()


@torch.inference_mode()
def test_no_step_waits_for_the_device():
    model = on_cuda("llama")
    prompt = torch.tensor([PROMPT], device="cuda")
    cache = engine_of(model)._loaded.kv.new(model.config)
    path = GraphPath(
        Graphs(model, lambda: CudaRecorder(model.device)), cache, Sampler(greedy(**SAMPLED), prompt), prompt
    )
    ids = path.first(path.prefill(prompt))
    try:
        torch.cuda.set_sync_debug_mode("error")
        for _ in range(20):
            (ids,) = path.step(ids)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert (path.name, path.steps) == ("graph", 21)
    path.settle(len(PROMPT) + 20)
    assert cache.get_seq_length() == len(PROMPT) + 20


def test_work_that_waits_is_refused_before_a_capture_begins():
    numbers = torch.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match="synchroniz"):
        CudaRecorder(numbers.device).record(lambda: numbers.mul_(numbers.sum().item()) and None)
    assert torch.cuda.get_sync_debug_mode() == 0
    assert not torch.cuda.is_current_stream_capturing()


def test_a_capture_that_fails_leaves_eager_decoding():
    model = on_cuda("llama")
    waits = model.model.layers[1].register_forward_hook(lambda _module, _inputs, out: float(out[0].sum()) and None)
    loaded = with_graphs(engine_of(model)._loaded, load_request())
    waits.remove()
    assert (loaded.graphs, loaded.info.decode_path) == (None, "eager")
    assert "graphs cannot be used" in loaded.info.notices[-1]
    engine = engine_of(model)
    engine._loaded = dataclasses.replace(loaded)
    ids, trace = ask(engine, PROMPT)
    require_near(model, PROMPT, ids, tolerance=lambda _top: 1e-4)
    assert trace.decode_path == "eager"
    engine.close()


def test_weights_in_nf4_are_captured(tmp_path):
    pytest.importorskip("bitsandbytes")
    tiny_model("llama", hidden_size=64, head_dim=16, intermediate_size=64).save_pretrained(tmp_path)
    settings = settings_for("nf4", torch.bfloat16)
    model = AutoModelForCausalLM.from_pretrained(
        tmp_path, quantization_config=settings, dtype=torch.bfloat16, device_map={"": "cuda"}
    )
    graph, eager = pair(model)
    ids, trace = ask(graph, PROMPT, 60)
    require_near(model, PROMPT, ids, tolerance=four_ulp)
    assert trace.decode_path == "graph", trace.notices
    graph.close()
    eager.close()


@pytest.mark.parametrize("rows", [2, 4])
def test_rows_of_a_batch_are_those_of_single_requests(rows):
    graph, eager = pair(on_cuda("llama"))
    prompts = [tuple(i + row for i in PROMPT) for row in range(rows)]
    request = GenerateRequest(prompts[0], greedy(20), ignore_eos=True, beside=tuple(prompts[1:]))
    pieces = [event for event in graph.generate(request, threading.Event()) if isinstance(event, Piece)]
    for row, prompt in enumerate(prompts):
        want, _ = ask(eager, prompt, 20)
        assert [(piece.token_id, *piece.beside)[row] for piece in pieces] == want
    graph.close()
    eager.close()
