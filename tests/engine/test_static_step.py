"""A step that is captured asks nothing of the host: no value, no shape and no tensor comes from there or goes there."""

import pytest
import torch
from tiny_models import greedy, tiny_model
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from llmcli.engine.cache import new_cache
from llmcli.engine.decode.eager import forward
from llmcli.engine.decode.program import Program, shapes_of
from llmcli.engine.sample import Sampler
from llmcli.prefill_rules import CONTINUABLE

ASKS_THE_HOST = {"phimoe": "its rotary embedding makes its frequencies on the host"}
"""Types that decode eagerly on CUDA, and why."""


class Crossings(TorchDispatchMode):
    """Collects operations that take a tensor from one device to another; a lone number on the host is none."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        copies = "copy" in func.__name__
        given = (t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and (t.dim() or copies))
        made_of = [t for t in tree_leaves(made) if isinstance(t, torch.Tensor)]
        if len({t.device for t in [*given, *made_of]}) > 1:
            self.found.add(func.__name__)
        return made


def on_meta(model):
    """The model without values: what asks for one raises."""
    for module in model.modules():
        for tensors in (module._parameters, module._buffers, vars(module)):
            for name, tensor in list(tensors.items()):
                if isinstance(tensor, torch.nn.Parameter):
                    tensors[name] = torch.nn.Parameter(tensor.to("meta"), requires_grad=False)
                elif isinstance(tensor, torch.Tensor):
                    tensors[name] = tensor.to("meta")
    return model


class Checking:
    """Runs what is recorded once to set it up, and once to see what crosses."""

    def __init__(self):
        self.found = set()

    def record(self, work, random=None):
        work()
        with Crossings() as crossings:
            work()
        self.found |= crossings.found
        return work

    def mail(self, rows):
        return None


class NoGenerator:
    """Stands in on a device that has no generators; seeded, it is torch's own."""

    def __init__(self, device):
        pass

    def manual_seed(self, _seed):
        return None


@pytest.fixture(autouse=True)
def _nothing_is_drawn(monkeypatch):
    monkeypatch.setattr(torch, "Generator", NoGenerator)


def program_of(model):
    """A program for a model without values, and what its recordings find."""
    cache, ids = new_cache(model.config), torch.zeros((1, 1), dtype=torch.long, device="meta")
    logits = forward(model, ids, cache)
    checking = Checking()
    return Program(model, shapes_of(cache), logits, checking), checking


@torch.no_grad()
@pytest.mark.parametrize("model_type", sorted(CONTINUABLE))
def test_a_forward_asks_nothing_of_the_host(model_type):
    program, checking = program_of(on_meta(tiny_model(model_type).to(torch.bfloat16)))
    program.bucket(1)
    assert bool(checking.found) == (model_type in ASKS_THE_HOST)


@torch.no_grad()
@pytest.mark.parametrize(
    "sampling",
    [
        {},
        {"repetition_penalty": 1.2},
        {"temperature": 0.8, "top_k": 5, "top_p": 0.9, "min_p": 0.1},
        {"temperature": 0.8, "repetition_penalty": 1.2},
    ],
)
def test_a_choice_asks_nothing_of_the_host(sampling):
    program, checking = program_of(on_meta(tiny_model("llama")))
    sampler = Sampler(greedy(**sampling), torch.zeros((1, 3), dtype=torch.long, device="meta"))
    program.choice(sampler)
    assert checking.found == set()
