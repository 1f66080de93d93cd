"""Grouped attention answers as transformers' own."""

import pytest
import torch
from tiny_models import tiny_model
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from llmcli.engine.attention import NAME, grouped_attention, use_grouped_attention


class Module(torch.nn.Module):
    def __init__(self, groups):
        super().__init__()
        self.num_key_value_groups = groups
        self.is_causal = True


@pytest.mark.parametrize(("heads", "kv_heads"), [(9, 3), (8, 1), (4, 4), (32, 8)])
@pytest.mark.parametrize("length", [1, 2, 17, 18])
@pytest.mark.parametrize("masked", [False, True])
def test_grouped_equals_sdpa(heads, kv_heads, length, masked):
    torch.manual_seed(0)
    query = torch.randn(2, heads, length, 16)
    key, value = torch.randn(2, kv_heads, 23, 16), torch.randn(2, kv_heads, 23, 24)
    mask = torch.rand(2, 1, length, 23) > 0.3 if masked else None
    if length > 1 and mask is None:
        key, value = key[:, :, :length], value[:, :, :length]
    arguments = (Module(heads // kv_heads), query, key, value, mask)
    got, _ = grouped_attention(*arguments, scaling=0.3)
    want, _ = sdpa_attention_forward(*arguments, scaling=0.3)
    assert got.shape == want.shape == (2, length, heads, 24)
    assert torch.allclose(got, want, atol=1e-6)


def test_it_replaces_sdpa_on_cpu_and_nothing_else():
    assert use_grouped_attention(tiny_model("llama")) == NAME
    softcapped = tiny_model("gemma2")
    chosen = softcapped.config._attn_implementation
    assert chosen != "sdpa"
    assert use_grouped_attention(softcapped) == chosen
