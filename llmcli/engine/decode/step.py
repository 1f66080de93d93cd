"""One decode step as a function of tensors alone, so that it can be exported: nothing in it depends on Python state.

Every number that changes from step to step comes in as a tensor or as the length of one, so that one exported program
serves any length of the cache.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface, DynamicCache
from transformers.cache_utils import DynamicLayer

from llmcli.engine.kv_rows import RowsLayer

NAME = "decode_step"
"""The attention of an exported step, in transformers' registry. No mask is registered for it: it needs none."""

LEAST = 2
"""Lengths below this are taken for constants by torch.export, so every marker is at least so long."""


def single_query_attention(  # noqa: PLR0917 - the signature of an attention function in transformers
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **_kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of one query to all of `key` and `value`, written out so that a compiler fuses it into loops.

    query (batch, heads, 1, dim), key and value (batch, kv_heads, keys, dim); returns (batch, 1, heads, dim). It reads
    grouped K and V unexpanded and sums in float32. softcap: logits are softcap·tanh(logits ÷ softcap) (Gemma 2).
    s_aux: per head, a logit that takes part in the softmax and has no value (attention sinks, GPT-OSS).
    """
    del module, attention_mask, dropout
    batch, heads, _, dim = query.shape
    kv_heads = key.shape[1]
    scale = dim**-0.5 if scaling is None else scaling
    grouped = query.reshape(batch, kv_heads, heads // kv_heads, 1, dim).float() * scale
    logits = (grouped * key.unsqueeze(2).float()).sum(-1)
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    weights = _softmax(logits, s_aux)
    out = (weights.unsqueeze(-1) * value.unsqueeze(2).float()).sum(-2)
    return out.to(value.dtype).reshape(batch, 1, heads, value.shape[-1]), None


def _softmax(logits: torch.Tensor, sinks: torch.Tensor | None) -> torch.Tensor:
    """Softmax of (batch, kv_heads, group, keys), with one more logit per head where there are sinks."""
    if sinks is None:
        return logits.softmax(-1)
    extra = sinks.float().reshape(1, *logits.shape[1:3], 1)
    top = torch.maximum(logits.amax(-1, keepdim=True), extra)
    weights = (logits - top).exp()
    return weights / (weights.sum(-1, keepdim=True) + (extra - top).exp())


AttentionInterface.register(NAME, single_query_attention)


class StepLayer(DynamicLayer):
    """A layer's buffers during one step: writes the new K and V in place and shows those that the query sees."""

    def __init__(self, buffers: Sequence[torch.Tensor], row: torch.Tensor, first: Any, count: Any) -> None:
        """buffers: keys and values (batch, heads, rows, dim). row: (1,), where the new K and V go.

        The query sees `count` rows from row `first` on, its own the last.
        """
        super().__init__()
        self.keys, self.values = buffers
        self.is_initialized = True
        self._row, self._first, self._count = row, first, count

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write K and V (batch, heads, 1, dim); returns those of all tokens that the query sees."""
        self.keys.index_copy_(2, self._row, key_states)
        self.values.index_copy_(2, self._row, value_states)
        end = self._first + self._count
        return self.keys[:, :, self._first : end], self.values[:, :, self._first : end]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """See transformers' `CacheLayerMixin`."""
        del query_length
        return self._count, 0

    def get_seq_length(self) -> int:
        """Tokens before the query, as far as this layer shows them."""
        return self._count - 1


class DecodeStep(nn.Module):
    """ids (batch, 1), position (1,), where to write and read, K and V of all layers → logits (batch, vocabulary).

    windows: of each layer that keeps K and V of its own, None for full attention. Layers of one window
    hold the same tokens in the same rows.
    """

    def __init__(self, model: Any, windows: Sequence[int | None]) -> None:
        super().__init__()
        self.model = model
        self.windows = tuple(windows)
        self.kinds = tuple(dict.fromkeys(windows))

    def forward(  # noqa: PLR0917 - what torch.export traces is positional
        self,
        ids: torch.Tensor,
        position: torch.Tensor,
        rows: list[torch.Tensor],
        firsts: list[torch.Tensor],
        counts: list[torch.Tensor],
        buffers: list[torch.Tensor],
    ) -> torch.Tensor:
        """rows, firsts, counts: per kind of layer; the last two tell numbers by their lengths (see `Arguments`)."""
        cache, own = step_cache(self.model.config)
        for at, (index, window) in enumerate(zip(own, self.windows, strict=True)):
            kind = self.kinds.index(window)
            first = 0 if window is None else firsts[kind].shape[0] - LEAST
            cache.layers[index] = StepLayer(buffers[2 * at : 2 * at + 2], rows[kind], first, counts[kind].shape[0])
        positions = position.unsqueeze(0).expand(ids.shape[0], 1)
        output = self.model(input_ids=ids, position_ids=positions, cache=cache, use_cache=True)
        logits: torch.Tensor = output.logits[:, -1]
        return logits


def step_cache(config: Any) -> tuple[DynamicCache, list[int]]:
    """A cache for one step, and where in it layers have to be put that show the K and V of their own."""
    cache = DynamicCache(config=config)
    return cache, [index for index, layer in enumerate(cache.layers) if isinstance(layer, DynamicLayer)]


def own_layers(cache: DynamicCache) -> list[RowsLayer]:
    """The layers that keep K and V in buffers."""
    return [layer for layer in cache.layers if isinstance(layer, RowsLayer)]


def windows_of(cache: DynamicCache) -> tuple[int | None, ...]:
    """The window of each layer that keeps K and V of its own, None for full attention."""
    return tuple(layer.window for layer in own_layers(cache))


def dynamic_shapes(step: DecodeStep) -> Iterator[Any]:
    """For torch.export: which dimensions of `Arguments.next` change from step to step."""
    dims = torch.export.Dim
    most = 1 << 22
    yield from ({}, {}, [{} for _ in step.kinds])
    yield [{0: dims(f"first_{at}", min=LEAST, max=most)} for at, _ in enumerate(step.kinds)]
    yield [{0: dims(f"count_{at}", min=LEAST, max=most - 1)} for at, _ in enumerate(step.kinds)]
    kinds = [dims(f"rows_{at}", min=LEAST + 1, max=most) for at, _ in enumerate(step.kinds)]
    yield [{2: kinds[step.kinds.index(window)]} for window in step.windows for _ in range(2)]


def tensors_of(step: DecodeStep) -> dict[str, torch.Tensor]:
    """Weights and buffers of a step by name, tied ones under each of their names."""
    parameters = dict(step.named_parameters(remove_duplicate=False))
    return parameters | dict(step.named_buffers(remove_duplicate=False))


def kind_of(tensor: torch.Tensor) -> str:
    """Data type and shape in words."""
    return f"{tensor.dtype} {tuple(tensor.shape)}"
