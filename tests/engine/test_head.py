"""The output head of a loaded model: what a prompt costs it."""

import time
from dataclasses import replace

import pytest
import torch
from tiny_models import load_request, saved_model, tiny_model
from torch.utils._python_dispatch import TorchDispatchMode

from llmcli.engine.decode.eager import forward
from llmcli.engine.head import read_head_in_place
from llmcli.engine.load import load


class Products(TorchDispatchMode):
    """Notes the matrix products that read `weight`."""

    def __init__(self, weight):
        super().__init__()
        self.storage = weight.untyped_storage().data_ptr()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        tensors = [item for item in args if isinstance(item, torch.Tensor)]
        reads = any(item.untyped_storage().data_ptr() == self.storage for item in tensors)
        if reads and function.overloadpacket in {torch.ops.aten.mm, torch.ops.aten.bmm}:
            self.names.append(str(function.overloadpacket).removeprefix("aten."))
        return function(*args, **(kwargs or {}))


@torch.no_grad()
def products(model, ids):
    with Products(model.get_output_embeddings().weight) as seen:
        logits = forward(model, ids, None)
    return seen.names, logits


@pytest.mark.parametrize("ids", [[[1, 2, 3]], [[1, 2, 3], [4, 5, 6]], [[1]]], ids=["prompt", "batch", "step"])
def test_the_last_position_is_a_row_of_a_product_that_reads_the_weight_in_place(ids):
    model = tiny_model("llama")
    _, want = products(model, torch.tensor(ids))
    read_head_in_place(model)
    names, got = products(model, torch.tensor(ids))
    assert names == ["mm"]
    torch.testing.assert_close(got, want)


def test_without_that_torch_takes_a_batched_product():
    """What makes `read_head_in_place` worth it, and no longer does once this fails."""
    names, _ = products(tiny_model("llama"), torch.tensor([[1, 2, 3]]))
    assert names == ["bmm"]


def test_a_loaded_model_reads_it_in_place(tmp_path):
    request = replace(load_request(), path=saved_model(tmp_path), device="cpu", quant="none")
    loaded = load(request, time.perf_counter)
    assert products(loaded.model, torch.tensor([[1, 2, 3]]))[0] == ["mm"]


def test_a_head_that_is_given_its_input_by_keyword_takes_it():
    model = tiny_model("llama")
    read_head_in_place(model)
    hidden = torch.ones(1, 1, model.config.hidden_size)
    assert torch.equal(model.lm_head(input=hidden), model.lm_head(hidden))
