"""Typed look-ups in a model's config: aliases of keys, class defaults, and refusals that name file, key and value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llmcli.errors import ModelError

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HIDDEN = ("hidden_size", "n_embd", "d_model")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv")
HEAD_DIM = ("head_dim",)
INTERMEDIATE = ("intermediate_size",)
VOCABULARY = ("vocab_size",)
POSITIONS = ("max_position_embeddings", "n_positions", "n_ctx", "seq_length", "max_seq_len", "model_max_length")
DTYPE = ("dtype", "torch_dtype")

MAX_LAYERS = 2**16
_MAX = 2**40
_HINT = "Check the file, or get the model's config again."


@dataclass(frozen=True, slots=True)
class Config:
    """A model's config. where: the file that it came from, for messages.

    defaults: what transformers takes for keys that are absent. A key that is there with null says: none.
    """

    where: str
    values: Mapping[str, Any]
    defaults: Mapping[str, int | bool] = field(default_factory=dict)

    def raw(self, keys: tuple[str, ...]) -> tuple[str, Any]:
        """The first of `keys` whose value is not null, with it; the first key with None when there is none."""
        for key in keys:
            value = self.values.get(key)
            if value is not None:
                return key, value
        return keys[0], None

    def absent(self, keys: tuple[str, ...]) -> bool:
        """Whether none of `keys` is there, not even with null."""
        return not any(key in self.values for key in keys)

    def count(self, keys: tuple[str, ...], limit: int = _MAX) -> int | None:
        """A whole number from 1 to `limit`, or None. Raises ModelError naming file, key and value."""
        key, value = self.raw(keys)
        if value is None:
            return self.defaults.get(keys[0]) if self.absent(keys) else None
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= limit:
            raise ModelError(f"{self.where}: {key} = {shown(value)} is no whole number from 1 to {limit}", _HINT)
        return value

    def needed(self, keys: tuple[str, ...], limit: int = _MAX) -> int:
        """As `count`, but raises ModelError when there is no value and no default."""
        value = self.count(keys, limit)
        if value is None:
            raise ModelError(f"{self.where}: {keys[0]} is missing", "The config must say it: it cannot be guessed.")
        return value

    def flag(self, key: str) -> bool:
        """True or false. Raises ModelError naming file, key and value."""
        value = self.values.get(key, self.defaults.get(key, False))
        if value is not None and not isinstance(value, bool):
            raise ModelError(f"{self.where}: {key} = {shown(value)} is neither true nor false", _HINT)
        return bool(value)

    def text(self, keys: tuple[str, ...]) -> str | None:
        """A text, or None. Raises ModelError naming file, key and value."""
        key, value = self.raw(keys)
        if value is not None and not isinstance(value, str):
            raise ModelError(f"{self.where}: {key} = {shown(value)} is no text", _HINT)
        return value


def shown(value: object) -> str:
    """A value as JSON would write it, cut to a readable length."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**40 else "a number of more than 40 digits"
    return text if len(text) <= 60 else text[:57] + "…"
