"""Answers of `estimate-kv` as tests write them: every size is a parameter."""

from llmcli.estimate.architecture import Architecture
from llmcli.estimate.counts import Count
from llmcli.estimate.facts import Attention, Layer, Mixer
from llmcli.estimate.report import SCHEMA, Estimate, KvPart, LayerPart, ModelPart, Row

LLAMA = Attention(8, 128, 128)
GIB = 2**30


def row(context=4096, batch=1, *, kv=GIB, peak=None, weights=4 * GIB, activations=0, overhead=0, vram=None):
    """A row that adds up: the total is that of the end of prefill."""
    peak = kv if peak is None else peak
    total = weights + peak + activations + overhead
    fits, room = (None, None) if vram is None else (total <= vram, vram - total)
    return Row(context, batch, kv, peak, kv, weights, activations, overhead, total, vram, fits, room)


def model(*mixers: Mixer, layers=32, heads=32, **more) -> Architecture:
    """`layers` layers with the same mixers; KV heads and head_dim are those of the first."""
    first = mixers[0] if mixers and isinstance(mixers[0], Attention) else Attention(0, 0, 0)
    facts = {"hidden": 4096, "intermediate": 14336, "vocabulary": 128256, "dtype": "bfloat16", "positions": 131072}
    return Architecture(
        "llama", (Layer(tuple(mixers)),) * layers, Count(8_030_261_248), heads, first.kv_heads, first.key_dim,
        **(facts | more),
    )  # fmt: skip


def estimate(name="llama-3.1-8b", rows=(), parts=None, *, short=131072, asymptotic=None, fixed=0, inexact=(), **more):
    """An answer of the transformers engine about a model of 8 B parameters in 32 layers."""
    parts = parts or (LayerPart("full_attention", 32, 4096, None, 0),)
    asymptotic = short if asymptotic is None else asymptotic
    kv = KvPart("bfloat16", short, asymptotic, fixed, not inexact, inexact, parts)
    part = ModelPart(name, "llama", 8_030_261_248, more.pop("active", 8_030_261_248), more.pop("vision", 0))
    fields = {
        "max_context": None, "comparison": (), "mix": None, "prompt": None, "gpus": (), "advice": (), "decode": (),
        "verified": (), "assumptions": ("weights in bfloat16",), "warnings": (),
    }  # fmt: skip
    return Estimate(SCHEMA, "transformers", "5.24.0", part, kv, tuple(rows) or (row(),), **(fields | more))
