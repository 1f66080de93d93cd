"""K and V in buffers with rows to spare, so that a token is written in place and nothing is copied to append it."""

import weakref
from typing import Any

import torch
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from llmcli.kv_rules import SPARE_ROWS

FIRST_ROWS = 512
"""Rows of the smallest buffer; every next one has twice as many."""


def bucket(rows: int, limit: int | None = None) -> int:
    """The rows of the buffer that holds `rows`: 512·2^k, or `limit` where that is less and enough."""
    return _no_more(max(FIRST_ROWS, 1 << (rows - 1).bit_length()), rows, limit)


def _no_more(size: int, rows: int, limit: int | None) -> int:
    """`size`, or `limit` where that is less and enough for `rows`."""
    return limit if limit is not None and rows <= limit < size else size


def most_rows(window: int) -> int:
    """The rows that a sliding `window` takes at most, however many tokens pass by."""
    return window - 1 + SPARE_ROWS


class RowsLayer(DynamicLayer):
    """Full attention's K and V: `keys` and `values` (batch, heads, tokens, dim) are views of the rows in use.

    buffers: of keys and values, (batch, heads, rows, dim) each; none before the first token. It answers as
    `DynamicLayer` does.
    """

    buffers: tuple[torch.Tensor, ...] = ()
    _shown: "weakref.ref[torch.Tensor] | None" = None
    _first = 0

    def __init__(self, limit: int | None = None) -> None:
        """limit: the most tokens that it will be asked to hold; None: not known."""
        super().__init__()
        self.limit = limit

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Take device and shapes from the first K and V."""
        self.device = key_states.device
        self.keys, self.values = key_states[:, :, :0], value_states[:, :, :0]
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append K and V (batch, heads, n, dim) in place; returns those of all tokens."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self.reserve(key_states.shape[-2])
        return self._append(key_states, value_states)

    def reset(self) -> None:
        """Give everything up."""
        self.buffers = ()
        super().reset()

    @property
    def window(self) -> int | None:
        """Tokens that a query sees, its own included; None for all."""
        return None

    @property
    def first_row(self) -> int:
        """The row of the buffers in which the first token lies."""
        if self._known:
            return self._first
        return int(self.keys.storage_offset() // self.keys.stride(-2)) if self.buffered else 0

    @property
    def buffered(self) -> bool:
        """Whether `keys` is a view of the buffer."""
        return self._known or (bool(self.buffers) and _same_storage(self.keys, self.buffers[0]))

    @property
    def _known(self) -> bool:
        """Whether `keys` is still the view that was made last, so that where it lies need not be looked up.

        Others crop and replace `keys`. The reference is weak, so that it keeps no buffer that they have let go of.
        """
        return self._shown is not None and self.keys is self._shown() and self.keys is not None

    @property
    def rows(self) -> int:
        """Rows of the buffers."""
        return int(self.buffers[0].shape[-2]) if self.buffers else 0

    def reserve(self, count: int) -> None:
        """Make room for `count` more tokens after those that are held."""
        held = int(self.keys.shape[-2])
        if self.buffered and self.first_row + held + count <= self.rows:
            return
        wanted = self._rows_for(held + count)
        if self.buffered and self.rows >= wanted:
            self._place(self.buffers, self.keys.clone(), self.values.clone())
        else:
            self._place((_like(self.keys, wanted), _like(self.values, wanted)), self.keys, self.values)

    def move_to(self, buffers: tuple[torch.Tensor, ...]) -> None:
        """Keep K and V in `buffers` from now on, which have room for them; one that is empty begins there."""
        if not self.is_initialized:
            self.lazy_initialization(*buffers)
            self.buffers = buffers
        elif self.buffers is not buffers or not self.buffered:
            shared = _same_storage(self.keys, buffers[0])
            keys, values = (rows.clone() if shared else rows for rows in (self.keys, self.values))
            self._place(buffers, keys, values)

    def leave(self) -> None:
        """Take K and V out of the buffers, which something else is going to use."""
        if self.buffered:
            self.keys, self.values = self.keys.clone(), self.values.clone()
        self.buffers = ()

    def _rows_for(self, tokens: int) -> int:
        return bucket(tokens, self.limit)

    def _place(self, buffers: tuple[torch.Tensor, ...], keys: torch.Tensor, values: torch.Tensor) -> None:
        """Put K and V at the start of `buffers` and use those from now on."""
        held = keys.shape[-2]
        self.buffers = buffers
        for buffer, rows in zip(buffers, (keys, values), strict=True):
            buffer[:, :, :held].copy_(rows)
        self._show(0, held)

    def _append(self, key_states: torch.Tensor, value_states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first, held, count = self.first_row, int(self.keys.shape[-2]), key_states.shape[-2]
        for buffer, new in zip(self.buffers, (key_states, value_states), strict=True):
            buffer.narrow(2, first + held, count).copy_(new)
        self._show(first, held + count)
        return self.keys, self.values

    def _show(self, first: int, tokens: int) -> None:
        """Let `keys` and `values` be these rows."""
        self.keys, self.values = (buffer.narrow(2, first, tokens) for buffer in self.buffers)
        self._shown, self._first = weakref.ref(self.keys), first

    def wrote(self, count: int) -> None:
        """Count `count` tokens as held that have been written into the rows after the last one, where room is."""
        self._show(self.first_row, int(self.keys.shape[-2]) + count)


class SlidingRowsLayer(RowsLayer, DynamicSlidingWindowLayer):
    """A sliding window's K and V: after each forward `keys` and `values` show the last `sliding_window - 1` tokens.

    The rows move on through the buffers, and back to their start when the end is reached. A prompt longer than the
    buffers passes by them: only its end is kept. It answers as `DynamicSlidingWindowLayer` does.
    """

    def __init__(self, sliding_window: int, limit: int | None = None) -> None:
        """sliding_window: tokens that a query sees, its own included. limit: see `RowsLayer`."""
        DynamicSlidingWindowLayer.__init__(self, sliding_window)
        self.limit = limit

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Take device and shapes from the first K and V."""
        self._sliding_window_tensor = torch.tensor(self.sliding_window, device=key_states.device)
        RowsLayer.lazy_initialization(self, key_states, value_states)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append K and V (batch, heads, n, dim); returns those of the tokens that the new ones may see."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        count, held = key_states.shape[-2], int(self.keys.shape[-2])
        self.cumulative_length += count
        visible = min(held, self.sliding_window - 1) + count
        if held + count > self._most:
            self.keys = torch.cat((self.keys, key_states), dim=-2)
            self.values = torch.cat((self.values, value_states), dim=-2)
        else:
            self.reserve(count)
            self._append(key_states, value_states)
        seen = self.keys[:, :, -visible:], self.values[:, :, -visible:]
        if not self.record_past:
            self._slide()
        return seen

    def wrote(self, count: int) -> None:
        """Count `count` tokens as held that have been written into the rows after the last one, where room is."""
        super().wrote(count)
        self.cumulative_length += count
        self._slide()

    @property
    def window(self) -> int:
        """See `RowsLayer.window`."""
        return int(self.sliding_window)

    @property
    def _most(self) -> int:
        return most_rows(self.sliding_window)

    def _rows_for(self, tokens: int) -> int:
        """Full windows have rows to spare, or every token would move them."""
        size = self._most if tokens >= self.sliding_window else min(self._most, bucket(tokens))
        return _no_more(size, tokens, self.limit)

    def _slide(self) -> None:
        """Let go of what the next token does not see."""
        kept = self.sliding_window - 1
        if self.keys.shape[-2] > kept:
            held = int(self.keys.shape[-2])
            self.keys, self.values = self.keys.narrow(2, held - kept, kept), self.values.narrow(2, held - kept, kept)
        if not self.buffered:
            self._settle()

    def _settle(self) -> None:
        """Take K and V out of the memory of a whole prompt: into the buffers, if there are any that suffice."""
        if self.rows >= self.keys.shape[-2]:
            self._place(self.buffers, self.keys, self.values)
        else:
            self.buffers = ()
            self.keys, self.values = self.keys.clone(), self.values.clone()


def with_rows(layer: Any, limit: int | None) -> Any:
    """The layer to use for an empty one of transformers' dynamic ones; kinds that hold more than K and V stay."""
    if type(layer) is DynamicSlidingWindowLayer and layer.sliding_window > 1:
        return SlidingRowsLayer(layer.sliding_window, limit)
    return RowsLayer(limit) if type(layer) is DynamicLayer else layer


def _like(tensor: torch.Tensor, rows: int) -> torch.Tensor:
    return tensor.new_empty((*tensor.shape[:2], rows, tensor.shape[-1]))


def _same_storage(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.untyped_storage().data_ptr() == right.untyped_storage().data_ptr()
