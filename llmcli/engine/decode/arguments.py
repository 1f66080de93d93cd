"""What a `DecodeStep` is called with, step after step, on one cache."""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache

from llmcli.engine.decode.step import LEAST, own_layers
from llmcli.engine.kv_rows import RowsLayer


class _Place:
    """Where the next token goes in the buffers of all layers of one window, and which rows its query sees.

    row: (1,), where it goes: the last of the rows that the query sees. first, count: tensors whose lengths tell the
    first of these rows (LEAST more than that) and their number.
    """

    __slots__ = ("_buffer_rows", "_cell", "_count", "_first", "_marker", "_window", "count", "first", "row")

    def __init__(self, layer: RowsLayer) -> None:
        self._window, self._buffer_rows = layer.window, layer.rows
        self._first, self._count = layer.first_row, int(layer.keys.shape[-2]) + 1
        self._marker = torch.empty(1)
        self.row = torch.empty(1, dtype=torch.long)
        self._cell = self.row.numpy()
        self.first = self._marker.expand(self._first + LEAST)
        self._tell()

    @property
    def beyond(self) -> bool:
        """Whether the buffers have no such row."""
        return self._first + self._count > self._buffer_rows

    def advance(self) -> None:
        """Become that of the token after."""
        if self._count == self._window:
            self._first += 1
            self.first = self._marker.expand(self._first + LEAST)
        else:
            self._count += 1
        self._tell()

    def _tell(self) -> None:
        self._cell[0] = self._first + self._count - 1
        self.count = self._marker.expand(self._count)


class Arguments:
    """What a `DecodeStep` takes, made from a cache that holds at least one token.

    A small model's step takes a few milliseconds, so it costs as little as can be: tensors are written to again, and
    the layers of the cache are told what has been written when `commit` is called.
    """

    def __init__(self, cache: DynamicCache) -> None:
        self._layers = own_layers(cache)
        self._position = torch.empty(1, dtype=torch.long)
        self._cell = self._position.numpy()
        self._written = 0
        self._places: list[_Place] = []
        self._buffers: list[torch.Tensor] = []
        self._look()

    def next(self, ids: torch.Tensor, position: int) -> tuple[Any, ...]:
        """The arguments of the next step, for the ids (batch, 1) at `position`; makes room for them.

        They are good until the token counts as written.
        """
        if any(place.beyond for place in self._places):
            self.commit()
            self._look()
        places = self._places
        self._cell[0] = position
        return (
            ids,
            self._position,
            [place.row for place in places],
            [place.first for place in places],
            [place.count for place in places],
            self._buffers,
        )

    def wrote(self) -> None:
        """Count the token of the last step as written."""
        self._written += 1
        for place in self._places:
            place.advance()

    def commit(self) -> None:
        """Let the layers of the cache hold what has been written."""
        for layer in self._layers if self._written else ():
            layer.wrote(self._written)
        self._written = 0

    def _look(self) -> None:
        """Make room for a token, and see where it goes."""
        for layer in self._layers:
            layer.reserve(1)
        self._buffers = [buffer for layer in self._layers for buffer in layer.buffers]
        self._places = [_Place(layer) for layer in _leaders(self._layers)]


def _leaders(layers: Sequence[RowsLayer]) -> list[RowsLayer]:
    """One layer of each of `DecodeStep.kinds`, in that order; all of a kind hold the same tokens in the same rows."""
    first: dict[int | None, RowsLayer] = {}
    for layer in layers:
        first.setdefault(layer.window, layer)
    return list(first.values())
