"""One decode step of fixed shapes at fixed addresses, so that it can be captured once and replayed.

Every number that changes from step to step lies in a tensor on the device: where to write, and at which position.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers.cache_utils import DynamicLayer

from llmcli.engine.decode.step import step_cache

Window = int | None
"""Tokens that a query of a sliding layer sees, its own included; None for full attention."""


class StaticLayer(DynamicLayer):
    """A layer's buffers during one step: writes the new K and V at a row, and shows all rows.

    Row r holds the token at position - (row - r). Rows after the new one are thereby in the future, and rows before a
    window's reach too old, so that transformers' masks leave both out.
    """

    is_compileable = True
    """Tells transformers that the rows are more than the tokens, so that it always makes a mask."""

    def __init__(
        self, buffers: Sequence[torch.Tensor], window: Window, row: torch.Tensor, position: torch.Tensor
    ) -> None:
        """buffers: keys and values (batch, heads, rows, dim). row, position: (1,), those of the new token."""
        super().__init__()
        self.keys, self.values = buffers
        self.is_initialized = True
        self.is_sliding = window is not None
        self._row, self._position = row, position

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write K and V (batch, heads, 1, dim); returns all rows."""
        self.keys.index_copy_(2, self._row, key_states)
        self.values.index_copy_(2, self._row, value_states)
        return self.keys, self.values

    def get_mask_sizes(self, query_length: int) -> tuple[int, torch.Tensor]:
        """See transformers' `CacheLayerMixin`; the offset is the position that row 0 would have."""
        del query_length
        return int(self.keys.shape[-2]), self._position - self._row

    def get_seq_length(self) -> torch.Tensor:
        """Tokens before the new one, as a tensor (1,)."""
        return self._position


class StaticStep:
    """Runs ids (batch, 1) through a model, on buffers that all its layers' K and V lie in.

    windows: of each layer that keeps K and V of its own. Layers of one window have their tokens in the same rows.
    """

    def __init__(self, model: Any, windows: Sequence[Window]) -> None:
        self._model = model
        self._windows = tuple(windows)

    def __call__(
        self,
        ids: torch.Tensor,
        position: torch.Tensor,
        rows: Mapping[Window, torch.Tensor],
        buffers: Sequence[Sequence[torch.Tensor]],
    ) -> torch.Tensor:
        """The logits (batch, vocabulary) after `ids` at `position` (1,), whose K and V go to `rows` (1,) per window.

        buffers: keys and values (batch, heads, rows, dim) of each layer that keeps its own.
        """
        cache, own = step_cache(self._model.config)
        for index, window, pair in zip(own, self._windows, buffers, strict=True):
            cache.layers[index] = StaticLayer(pair, window, rows[window], position)
        with experts_of_one_token(self._model):
            output = self._model(
                input_ids=ids,
                position_ids=position.expand(len(ids), 1),
                cache=cache,
                use_cache=True,
                logits_to_keep=1,
            )
        logits: torch.Tensor = output.logits[:, -1]
        return logits


@contextmanager
def experts_of_one_token(model: Any) -> Iterator[None]:
    """Let a mixture of experts gather the weights of the chosen ones, as transformers' `generate` does for decode.

    The way it takes for many tokens asks the host where each expert's tokens end.
    """
    chosen = model.get_experts_implementation()
    if "grouped_mm" not in chosen.values():
        yield
        return
    model.set_experts_implementation({name: _GATHERED.get(way, way) for name, way in chosen.items()})
    try:
        yield
    finally:
        model.set_experts_implementation(chosen)


_GATHERED = {"grouped_mm": "batched_mm"}
