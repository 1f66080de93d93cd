"""What layers with windows hold while a prompt is read in pieces, against transformers' cache."""

import pytest
import torch
from oracle import build, resident_bytes, storage_of
from tiny import tiny
from tiny_latent import DEEPSEEK_V4
from transformers import DynamicCache

from llmcli.estimate.layers import in_chunks, peak_bytes, steady_bytes

WINDOW = 40


def most_held(values: dict[str, object], prompt: int, chunk: int, batch: int) -> int:
    """The most bytes behind the cache after any piece."""
    model = build(values)
    cache, held = DynamicCache(config=model.config), []
    ids = torch.zeros(batch, prompt, dtype=torch.long, device="meta")
    with torch.no_grad():
        for start in range(0, prompt, chunk):
            model(input_ids=ids[:, start : start + chunk], cache=cache, use_cache=True, logits_to_keep=1)
            held.append(resident_bytes(cache))
    return max(held)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("chunk", [1, 16, 39, 40, 41, 64, 500])
@pytest.mark.parametrize("prompt", [30, 64, 100, 129])
def test_the_peak_is_that_of_the_cache(prompt, chunk, batch):
    values = tiny("mistral", sliding_window=WINDOW)
    layers = in_chunks(storage_of(values), chunk)
    assert peak_bytes(layers, prompt) * batch == most_held(values, prompt, chunk, batch)


def test_pieces_change_nothing_where_every_token_is_held():
    layers = storage_of(tiny("llama"))
    assert peak_bytes(in_chunks(layers, 16), 100) == peak_bytes(layers, 100) == steady_bytes(layers, 100)


@pytest.mark.parametrize(("prompt", "chunk"), [(30, 16), (100, 24), (100, 32), (100, 500)])
def test_no_more_tokens_wait_for_a_compressed_row_than_a_piece_leaves(prompt, chunk):
    layers = in_chunks(storage_of(DEEPSEEK_V4), chunk)
    held = most_held(DEEPSEEK_V4, prompt, chunk, 1)
    assert held <= peak_bytes(layers, prompt) <= 1.1 * held
