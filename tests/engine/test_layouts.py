"""Models on several devices: which take part, what they are called, and that phases wait for all of them."""

import importlib

import pytest
import torch
from tiny_models import engine_of, greedy, tiny_config, tiny_model

from llmcli.engine import device as devices
from llmcli.engine.tensor_parallel import Led, refuse_sharding
from llmcli.errors import LlmcliError, ModelError, UsageError
from llmcli.inference import GenerateRequest
from llmcli.ranks import refuse_together

CPU, FIRST, SECOND = torch.device("cpu"), torch.device("cuda:0"), torch.device("cuda:1")
generating = importlib.import_module("llmcli.engine.generate")


@pytest.mark.parametrize(
    ("laid_out", "found"),
    [
        (None, (CPU,)),
        ({"": CPU}, (CPU,)),
        ({"": SECOND}, (SECOND,)),
        ({"embed": 0, "layers.0": 0, "layers.1": 1, "head": "cpu"}, (FIRST, SECOND, CPU)),
        ({"embed": "cpu", "layers": 1}, (SECOND, CPU)),
    ],
)
def test_the_first_gpu_takes_the_ids(laid_out, found):
    model = tiny_model("llama")
    model.hf_device_map = laid_out
    assert devices.devices_of(model) == found


def test_devices_are_named_with_their_products(monkeypatch):
    products = {FIRST: "NVIDIA L4", SECOND: "NVIDIA L4"}
    monkeypatch.setattr(torch.cuda, "get_device_name", products.get)
    assert devices.name(CPU) == "cpu"
    assert devices.name(SECOND) == "cuda:1 (NVIDIA L4)"
    assert devices.name(FIRST, SECOND, CPU) == "cuda:0, cuda:1 (2 × NVIDIA L4) + cpu"


def test_the_end_of_every_chunk_waits_for_all_devices_and_their_memory_is_summed(monkeypatch):
    model = tiny_model("llama")
    model.hf_device_map = {"layers": "cpu", "head": "meta"}
    engine = engine_of(model, prefill_chunk=6)
    assert engine._loaded.devices == (torch.device("meta"), CPU)
    engine._loaded = dataclass_with(engine._loaded, device=CPU)
    waited = []
    monkeypatch.setattr(generating, "synchronize", waited.append)
    peaks = {FIRST: 7, SECOND: 11}
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", peaks.get)
    trace = list(engine.generate(GenerateRequest(tuple(range(2, 13)), greedy(3)), Never()))[-1].trace
    assert trace.error is None
    assert waited == [*engine._loaded.devices] * 2
    assert devices.peak_bytes(FIRST, SECOND, CPU) == 18
    engine.close()


def dataclass_with(loaded, **changes):
    import dataclasses

    return dataclasses.replace(loaded, **changes)


def test_a_map_without_gpus_has_no_effect_and_says_so():
    engine = engine_of(tiny_model("llama"), spread=True)
    assert engine.info.device == "cpu"
    assert engine.info.notices == ("--device-map auto has no effect: torch finds no GPU, and runs on cpu",)


# Several processes


@pytest.fixture
def two(monkeypatch):
    """Make this the process that talks of two that torchrun started."""
    ours = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x"}
    for name, value in ours.items():
        monkeypatch.setenv(name, value)


ALLOWED = {"quant": "auto", "device": "auto", "decode": "auto", "spread": False, "drafting": False}


@pytest.mark.parametrize(
    "change", [{"quant": "nf4"}, {"device": "cuda:1"}, {"decode": "graph"}, {"spread": True}, {"drafting": True}]
)
def test_what_several_processes_cannot_do_is_refused(two, change):
    refuse_together(**ALLOWED)
    with pytest.raises(UsageError, match="torchrun started 2 processes"):
        refuse_together(**ALLOWED | change)


def test_without_torchrun_nothing_is_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")  # other launchers set it as well
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    refuse_together(**ALLOWED | {"spread": True})


def test_a_model_that_cannot_be_shared_out_is_refused_by_its_config(two):
    refuse_sharding(tiny_config("llama"), "tiny")
    with pytest.raises(UsageError, match=r"9 attention heads and 3 K/V heads, which 2 processes"):
        refuse_sharding(tiny_config("llama", num_attention_heads=9, num_key_value_heads=3, hidden_size=36), "tiny")
    with pytest.raises(ModelError, match="no way to share 'gpt2'"):
        refuse_sharding(tiny_config("gpt2"), "tiny")


def test_a_forward_that_fails_ends_the_following(monkeypatch):
    monkeypatch.setattr("llmcli.engine.tensor_parallel._control_group", lambda: None)
    sent = []
    monkeypatch.setattr("llmcli.engine.tensor_parallel._send", lambda tensor, _group: sent.append(tensor.tolist()))
    model = tiny_model("llama")
    engine = engine_of(model)
    engine._loaded = dataclass_with(engine._loaded, model=Led(model))
    request = GenerateRequest(tuple(range(2, 13)), greedy(2))
    assert list(engine.generate(request, Never()))[-1].trace.error is None
    assert sent == [[1, 1, 0, 1, 11, 1], [list(request.prompt)], [1, 1, 11, 1, 1, 1], sent[3]]
    model.model.layers[1].register_forward_pre_hook(lambda *_: 1 / 0)
    for words in ("ZeroDivisionError", "out of step"):
        error = list(engine.generate(request, Never()))[-1].trace.error
        assert isinstance(error, LlmcliError)
        assert words in error.message
    sent.clear()
    engine.close()
    assert sent == [], "who is out of step cannot be told anything"


class Never:
    def is_set(self):
        return False
