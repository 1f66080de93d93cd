"""A model in memory, with what is known of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from llmcli.inference import ModelInfo


@dataclass(frozen=True, slots=True)
class Loaded:
    """A ready model. `tokenizer` is None when only ids are fed; `chunk`: prompt tokens per prefill forward."""

    model: Any
    tokenizer: Any
    info: ModelInfo
    device: torch.device
    eos_ids: frozenset[int]
    chunk: int


def eos_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every id that ends an answer: the union of config, generation_config and tokenizer."""
    config = model.config.get_text_config(decoder=True)
    sources = (config, getattr(model, "generation_config", None), tokenizer)
    return frozenset(i for source in sources for i in _as_ids(getattr(source, "eos_token_id", None)))


def _as_ids(value: int | Iterable[int] | None) -> Iterable[int]:
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else value


def weight_bytes(model: Any) -> int:
    """Bytes of all parameters, tied ones once, with the scales of bitsandbytes' 4-bit weights."""
    total = 0
    for tensor in model.parameters():
        total += tensor.numel() * tensor.element_size()
        state = getattr(tensor, "quant_state", None)
        if state is not None:
            total += state.absmax.numel() * state.absmax.element_size()
    return total
