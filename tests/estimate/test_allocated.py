"""What the engine's cache reserves: buffers measured in the caches that it fills, and what follows for the estimate."""

import pytest
import torch
from oracle import build, storage_of
from sized import architecture, sizer, subject
from test_oracle_latent import ALL as LATENT
from tiny import tiny
from tiny_recurrent import tiny as tiny_recurrent

from llmcli.engine.cache import allocated_bytes as measured_bytes
from llmcli.engine.cache import new_cache
from llmcli.estimate.facts import Attention
from llmcli.estimate.fit import Setting, Stored, need_of
from llmcli.estimate.layers import allocated_bytes
from llmcli.estimate.plan import estimate
from llmcli.estimate.request import SizeRequest
from llmcli.kv_rules import SPARE_ROWS

LONG = {"max_position_embeddings": 2048}
SMALL, LARGE = 16, 600
AROUND = (SMALL - 1, SMALL, SMALL + 1, 511, 512, 513, SMALL + SPARE_ROWS - 1, SMALL + SPARE_ROWS, 700)
WINDOWED = (*AROUND, LARGE - 1, LARGE, LARGE + 1, LARGE + SPARE_ROWS - 1, LARGE + SPARE_ROWS, 1200)
MODELS = {
    "full attention": (tiny("llama", **LONG), "float32", AROUND),
    "a small window": (tiny("gemma2", **LONG), "bfloat16", AROUND),
    "a large window": (tiny("gemma3_text", sliding_window=LARGE, **LONG), "float32", WINDOWED),
    "latent rows": (LATENT["deepseek_v3"] | LONG, "bfloat16", (5, 513)),
    "latent rows in a window": (LATENT["deepseek_v3"] | LONG | {"sliding_window": SMALL}, "bfloat16", (17, 513, 700)),
    "states beside attention": (tiny_recurrent("falcon_h1"), "bfloat16", (5, 100)),
}


def fill(model, context, chunk):
    """A cache that never holds more than `context` tokens, after a prompt in pieces of `chunk` and two steps."""
    cache = new_cache(model.config, limit=context)
    pieces = torch.zeros(1, context - 2, dtype=torch.long).split(chunk, dim=1)
    with torch.inference_mode():
        for ids in (*pieces, torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, 1, dtype=torch.long)):
            model(input_ids=ids, cache=cache, use_cache=True, logits_to_keep=1)
    return cache


@pytest.mark.parametrize(("values", "dtype", "contexts"), MODELS.values(), ids=MODELS)
def test_the_estimate_is_what_the_cache_has_taken(values, dtype, contexts):
    model, layers = build(values, "cpu", getattr(torch, dtype)), storage_of(values, dtype)
    for context in contexts:
        assert measured_bytes(fill(model, context, context)) == allocated_bytes(layers, context), context


@pytest.mark.parametrize("chunk", [100, 512, 600])
def test_it_is_the_same_when_a_prompt_is_read_in_pieces(chunk):
    values = tiny("gemma2", **LONG)
    model, layers = build(values, "cpu"), storage_of(values)
    for context in (SMALL + SPARE_ROWS - 1, 1205):
        assert measured_bytes(fill(model, context, chunk)) == allocated_bytes(layers, context)


def windows(window=100):
    return architecture(Attention(2, 16, 16, window=window))


def test_what_is_reserved_counts_where_it_is_more_than_a_prefill_leaves():
    one = sizer(windows(), SizeRequest(prefill_chunk=64))
    row = one.row(1000, 3)
    assert (row.kv_bytes, row.kv_peak_bytes) == (3 * 512 * 99, 3 * 512 * (99 + 64))
    assert row.kv_allocated_bytes == 3 * 512 * (99 + SPARE_ROWS)
    used = row.weights_bytes + row.overhead_bytes + row.kv_allocated_bytes + row.activation_bytes
    assert row.total_bytes == used
    for room, fits in ((used, True), (used - 1, False)):
        asked = SizeRequest((1000,), (3,), vram=(room,), prefill_chunk=64)
        assert estimate(subject(windows()), asked).rows[0].fits is fits


def test_the_plan_reserves_what_the_estimate_does():
    need = need_of(Stored(windows(), 0, None), Setting("none", "bfloat16", "cuda", prefill_chunk=64))
    row = estimate(subject(windows()), SizeRequest((1000,), prefill_chunk=64)).rows[0]
    assert need.cache(1000) == row.kv_allocated_bytes > row.kv_peak_bytes
    assert need.total(1000) == row.total_bytes


def test_caches_of_transformers_own_reserve_nothing():
    row = estimate(subject(), SizeRequest((1000,), kv_dtype="fp8")).rows[0]
    assert row.kv_allocated_bytes == row.kv_bytes
    moved = Setting("none", "bfloat16", "cuda", prefill_chunk=64, kv_offload=True)
    assert need_of(Stored(windows(), 0, None), moved).cache(1000) == 2 * 128 * (99 + 64)
