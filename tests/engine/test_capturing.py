"""Which models have their steps captured when they are loaded, and what is said where they have not."""

import dataclasses
import threading

import pytest
import torch
from direct_recorder import DirectRecorder
from tiny_models import engine_of, greedy, load_request, tiny_model

from llmcli.engine import capturing
from llmcli.engine.capturing import with_graphs
from llmcli.engine.decode import program
from llmcli.engine.kv import KvCache
from llmcli.engine.local import LocalEngine
from llmcli.engine.thread import InferenceThread
from llmcli.errors import OutOfMemory
from llmcli.inference import GenerateRequest

CUDA = torch.device("cuda", 0)


def loaded_on_cuda(model_type="llama", *, attention="sdpa", **info):
    """A model that takes itself for one on a GPU."""
    model = tiny_model(model_type)
    loaded = engine_of(model)._loaded
    model.set_attn_implementation(attention)
    info = dataclasses.replace(loaded.info, **info)
    return dataclasses.replace(loaded, device=CUDA, devices=(CUDA,), info=info)


@pytest.fixture
def recorder(monkeypatch):
    direct = DirectRecorder()
    monkeypatch.setattr(capturing, "CudaRecorder", lambda _device: direct)
    return direct


@pytest.mark.parametrize("decode", ["auto", "graph"])
def test_a_model_on_cuda_is_captured_while_it_loads(recorder, decode):
    loaded = with_graphs(loaded_on_cuda(load_seconds=0.0), load_request(decode=decode))
    assert recorder.records == 1
    assert loaded.info.load_seconds > 0
    engine = LocalEngine(dataclasses.replace(loaded, device=torch.device("cpu"), devices=()), InferenceThread())
    assert engine.info.decode_path == "graph"
    request = GenerateRequest(tuple(range(2, 9)), greedy(6), ignore_eos=True)
    trace = list(engine.generate(request, threading.Event()))[-1].trace
    assert (trace.decode_path, trace.error) == ("graph", None)
    assert recorder.records == 2, "the choice; the first bucket was there"
    assert trace.notices == ()
    engine.close()


@pytest.mark.parametrize("decode", ["eager", "compiled"])
def test_another_path_that_is_asked_for_captures_nothing(recorder, decode):
    assert with_graphs(loaded_on_cuda(), load_request(decode=decode)).graphs is None
    assert recorder.records == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"device": torch.device("cpu")}, "need a CUDA device"),
        ({"devices": (CUDA, torch.device("cuda", 1))}, "several work on the model"),
        ({"lookup": True}, "drafts make steps of changing length"),
        ({"kv": KvCache(offload=True)}, "not kept as the model makes them"),
    ],
)
def test_what_cannot_be_captured_is_said_only_where_it_was_asked_for(recorder, change, reason):
    loaded = dataclasses.replace(loaded_on_cuda(), **change)
    asked = with_graphs(loaded, load_request(decode="graph"))
    assert reason in asked.info.notices[-1]
    assert asked.info.notices[-1].endswith("decode is eager")
    left = with_graphs(loaded, load_request())
    assert (asked.graphs, left.graphs, left.info.notices) == (None, None, loaded.info.notices)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ({"quant": "int8"}, "waits for the device"),
        ({"attention": "sdpa_grouped"}, "takes no mask"),
    ],
)
def test_models_that_cannot_be_captured(recorder, model, reason):
    asked = with_graphs(loaded_on_cuda(**model), load_request(decode="graph"))
    assert reason in asked.info.notices[-1]
    assert recorder.records == 0


def test_a_type_with_other_state_than_k_and_v_is_not_captured(recorder):
    loaded = loaded_on_cuda()
    loaded.model.config.model_type = "something_new"
    assert "'something_new' models keep more" in with_graphs(loaded, load_request(decode="graph")).info.notices[-1]


def test_a_capture_that_fails_while_loading_leaves_an_eager_model(monkeypatch):
    monkeypatch.setattr(capturing, "CudaRecorder", lambda _device: DirectRecorder(fail_from=1))
    loaded = with_graphs(loaded_on_cuda(), load_request())
    assert (loaded.graphs, loaded.info.decode_path) == (None, "eager")
    assert "cannot be used, decoding eagerly" in loaded.info.notices[-1]


def test_running_out_of_memory_gives_up_what_was_captured(recorder):
    model = tiny_model("llama")
    loaded = engine_of(model)._loaded
    model.set_attn_implementation("sdpa")
    loaded = with_graphs(dataclasses.replace(loaded, device=CUDA, devices=(CUDA,)), load_request())
    cpu = torch.device("cpu")
    engine = LocalEngine(dataclasses.replace(loaded, device=cpu, devices=(cpu,)), InferenceThread())
    request = GenerateRequest(tuple(range(2, 9)), greedy(6), ignore_eos=True)
    before = list(engine.generate(request, threading.Event()))[-1].trace
    hook = model.register_forward_pre_hook(out_of_memory)
    failed = list(engine.generate(request, threading.Event()))[-1].trace
    hook.remove()
    assert isinstance(failed.error, OutOfMemory)
    after = list(engine.generate(request, threading.Event()))[-1].trace
    assert (after.decode_path, after.generated, len(after.notices)) == ("graph", before.generated, 1)
    engine.close()


def out_of_memory(_model, _inputs):
    raise torch.OutOfMemoryError("CUDA out of memory.")


def test_a_captured_step_that_answers_differently_is_not_used(recorder, monkeypatch):
    step = program.StaticStep.__call__
    monkeypatch.setattr(program.StaticStep, "__call__", lambda *given: -step(*given))
    loaded = with_graphs(loaded_on_cuda(), load_request())
    assert loaded.graphs is None
    assert "the captured step answers differently from an eager step" in loaded.info.notices[-1]
