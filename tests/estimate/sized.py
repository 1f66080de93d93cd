"""Subjects for tests of sizes, made of facts rather than of files."""

from dataclasses import replace

from llmcli.estimate.architecture import Architecture
from llmcli.estimate.counts import Count, embeddings, linear, routed_experts
from llmcli.estimate.engines.transformers import TRANSFORMERS
from llmcli.estimate.facts import Attention, Layer, Mixer
from llmcli.estimate.request import SizeRequest
from llmcli.estimate.sizer import Sizer, sizer_of
from llmcli.estimate.subject import Subject

HIDDEN, VOCABULARY = 64, 1000


def architecture(
    *mixers: Mixer, layers: int = 4, count: Count | None = None, model_type: str = "llama", **more: object
) -> Architecture:
    """`layers` layers with `mixers` each (attention of 2 KV heads of 16), an embedding and a head apart."""
    each = count or linear(HIDDEN, 192) + linear(192, HIDDEN)
    layer = Layer(mixers or (Attention(2, 16, 16),), each)
    values = {
        "model_type": model_type,
        "layers": (layer,) * layers,
        "count": each * layers + embeddings(VOCABULARY, HIDDEN, tied=False),
        "heads": 4,
        "kv_heads": 2,
        "head_dim": 16,
        "hidden": HIDDEN,
        "intermediate": 192,
        "vocabulary": VOCABULARY,
        "dtype": "bfloat16",
        "positions": 8192,
    }
    return Architecture(**(values | more))


def subject(model: Architecture | None = None, **more: object) -> Subject:
    model = model or architecture()
    return replace(Subject("m", model, model.positions), **more)


def mixture(number: int = 8, used: int = 2) -> Architecture:
    """Half its parameters and more are experts."""
    return architecture(count=linear(HIDDEN, HIDDEN) + routed_experts(number, used, 3 * HIDDEN * HIDDEN))


def sizer(model: Architecture | None = None, request: SizeRequest | None = None) -> Sizer:
    return sizer_of(subject(model), request or SizeRequest(), TRANSFORMERS)
