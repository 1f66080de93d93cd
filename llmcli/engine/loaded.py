"""A model in memory, with what is known of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from llmcli.engine.compile.steps import CompiledSteps
from llmcli.engine.decode.graphs import Graphs
from llmcli.engine.int4 import packed_bytes, unpacked_bytes
from llmcli.engine.kv import KvCache
from llmcli.engine.quantize import scales
from llmcli.engine.template import chat_format
from llmcli.inference import ModelInfo


@dataclass(frozen=True, slots=True)
class Loaded:
    """A ready model. `tokenizer` is None when only ids are fed; `chunk`: prompt tokens per prefill forward.

    device: where ids are fed in and logits come out; devices: all that work on it, this one first. kv: how its caches
    are made. lookup: drafts are looked up in what prompt and answer say. draft: the model that drafts instead.
    compiled: the steps compiled ahead of time; None where only eager ones are wanted. graphs: those that are captured.
    """

    model: Any
    tokenizer: Any
    info: ModelInfo
    device: torch.device
    eos_ids: frozenset[int]
    chunk: int
    kv: KvCache
    devices: tuple[torch.device, ...]
    lookup: bool = False
    draft: "Loaded | None" = None
    compiled: CompiledSteps | None = None
    graphs: Graphs | None = None

    def noting(self, *notices: str) -> "Loaded":
        """The model with more that a person should know of it."""
        return replace(self, info=replace(self.info, notices=(*self.info.notices, *notices)))


def eos_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every id that ends an answer: the union of config, generation_config, tokenizer and chat template."""
    end_of_turn = None if tokenizer is None else chat_format(tokenizer).end_of_turn
    return named_eos_ids(model, tokenizer) | frozenset(_as_ids(end_of_turn))


def named_eos_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """The ids that config, generation_config or tokenizer name as the end."""
    config = model.config.get_text_config(decoder=True)
    sources = (config, getattr(model, "generation_config", None), tokenizer)
    return frozenset(i for source in sources for i in _as_ids(getattr(source, "eos_token_id", None)))


def _as_ids(value: int | Iterable[int] | None) -> Iterator[int]:
    values = value if isinstance(value, Iterable) else (value,)
    return (int(i) for i in values if isinstance(i, (int, float)) and i == int(i))


def weight_bytes(model: Any) -> int:
    """Bytes of all parameters, tied ones once, of quantized ones with their scales, and of what is kept unpacked."""
    return _packed_weight_bytes(model) + unpacked_bytes(model)


def _packed_weight_bytes(model: Any) -> int:
    return sum(map(_bytes, (*model.parameters(), *scales(model)))) + packed_bytes(model)


def streamed_bytes(model: Any) -> int | None:
    """Weight bytes that one decode step reads: all but an input embedding that is not the head as well.

    None for a mixture of experts, where it depends on the experts chosen.
    """
    config = model.config.get_text_config(decoder=True)
    if any(getattr(config, name, None) for name in ("num_local_experts", "num_experts", "n_routed_experts")):
        return None
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    tied = head is not None and getattr(head, "weight", None) is embedding.weight
    return _packed_weight_bytes(model) - (0 if tied else _bytes(embedding.weight))


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
