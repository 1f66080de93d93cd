"""Attention of few queries that reads grouped K and V unexpanded."""

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own abbreviation
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

NAME = "sdpa_grouped"
FEW = 17
"""Queries per sequence up to which reading K and V once outweighs the longer product: a token and 16 drafts."""


def grouped_attention(  # noqa: PLR0917 - the signature of an attention function in transformers
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention as transformers' `sdpa`, with few queries per sequence folded over their K/V head.

    query (batch, heads, length, dim), key and value (batch, kv_heads, keys, dim); returns (batch, length, heads, dim).
    The `heads / kv_heads` queries that share a K/V head become its query length, so that K and V are read once and
    unexpanded. One query may see every key that the cache holds, so no causal mask is needed; several ones need theirs,
    as drafts do that are checked. A mask that all heads share is kept. On CPU in bfloat16 one query takes a fifth of
    the time of the expanded form, and five about three fifths.
    """
    batch, heads, length, dim = query.shape
    kv_heads = key.shape[1]
    foldable = length <= FEW and heads != kv_heads and not any(kwargs.get(k) is not None for k in _UNSUPPORTED)
    foldable = foldable and (length == 1 or attention_mask is not None)
    if not foldable or (attention_mask is not None and attention_mask.shape[1:3] != (1, length)):
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    group = heads // kv_heads
    folded = query.reshape(batch, kv_heads, group * length, dim)
    mask = attention_mask if attention_mask is None or length == 1 else attention_mask.repeat(1, 1, group, 1)
    out = F.scaled_dot_product_attention(folded, key, value, attn_mask=mask, scale=scaling)
    return out.reshape(batch, heads, length, value.shape[-1]).transpose(1, 2).contiguous(), None


_UNSUPPORTED = ("softcap", "position_bias", "s_aux", "output_attentions")


def use_grouped_attention(model: Any) -> str:
    """Switch `model` from `sdpa` to the grouped form where it pays; returns the name of the attention in force.

    Only CPU was measured to gain; other devices and other implementations keep what transformers chose.
    """
    chosen: str = model.config._attn_implementation
    if chosen != "sdpa" or model.device.type != "cpu":
        return chosen
    AttentionInterface.register(NAME, grouped_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    model.set_attn_implementation(NAME)
    return NAME
