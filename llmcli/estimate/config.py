"""Typed look-ups in a model's config: aliases of keys, class defaults, and refusals that name file, key and value."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from llmcli.errors import ModelError

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HIDDEN = ("hidden_size", "n_embd", "d_model")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv")
HEAD_DIM = ("head_dim",)
INTERMEDIATE = ("intermediate_size", "ffn_dim")
VOCABULARY = ("vocab_size",)
POSITIONS = ("max_position_embeddings", "n_positions", "n_ctx", "seq_length", "max_seq_len", "model_max_length")
DTYPE = ("dtype", "torch_dtype")

Bias = bool | str
"""Whether a layer has a bias, or the key of the flag that says it."""

MAX_LAYERS = 2**12
_MAX = 2**40
_HINT = "Check the file, or get the model's config again."


@dataclass(frozen=True, slots=True)
class Config:
    """A model's config. where: the file that it came from, for messages.

    defaults: what transformers takes for keys that are absent. A key that is there with null says: none.
    """

    where: str
    values: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)

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

    def value(self, keys: tuple[str, ...]) -> tuple[str, Any]:
        """As `raw`; where all of `keys` are absent, the class's default for one of them."""
        key, value = self.raw(keys)
        if value is None and self.absent(keys):
            return next(
                ((name, self.defaults[name]) for name in keys if self.defaults.get(name) is not None), (key, None)
            )
        return key, value

    def count(self, keys: tuple[str, ...], limit: int = _MAX, least: int = 1) -> int | None:
        """A whole number from `least` to `limit`, or None. Raises ModelError naming file, key and value."""
        key, value = self.value(keys)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= limit:
            raise self.wrong(key, value, f"no whole number from {least} to {limit}")
        return value

    def size(self, key: str, otherwise: int = 0) -> int:
        """A whole number from 0, `otherwise` where there is none. Raises ModelError naming file, key and value."""
        value = self.count((key,), least=0)
        return otherwise if value is None else value

    def needed(self, keys: tuple[str, ...], limit: int = _MAX) -> int:
        """As `count`, but raises ModelError when there is no value and no default."""
        value = self.count(keys, limit)
        if value is None:
            problem = f"{self.where}: {keys[0]} is missing or null"
            raise ModelError(problem, "The config must say it: it cannot be guessed.")
        return value

    def number(self, keys: tuple[str, ...]) -> float | None:
        """A number above 0, or None. Raises ModelError naming file, key and value."""
        key, value = self.value(keys)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _MAX
        ):
            raise self.wrong(key, value, "no number above 0")
        return value

    def flag(self, key: str) -> bool:
        """True or false. Raises ModelError naming file, key and value."""
        value = self.values.get(key, self.defaults.get(key, False))
        if value is not None and not isinstance(value, bool):
            raise self.wrong(key, value, "neither true nor false")
        return bool(value)

    def text(self, keys: tuple[str, ...]) -> str | None:
        """A text, or None. Raises ModelError naming file, key and value."""
        key, value = self.value(keys)
        if value is not None and not isinstance(value, str):
            raise self.wrong(key, value, "no text")
        return value

    def texts(self, key: str, length: int | None = None) -> tuple[str, ...] | None:
        """A list of texts, of `length` where that is given, or None. Raises ModelError naming file, key and value."""
        values: tuple[str, ...] | None = self._list(key, str, "texts", length)
        return values

    def counts(self, key: str, length: int | None = None) -> tuple[int, ...] | None:
        """A list of whole numbers from 0, of `length` where given, or None. Raises ModelError naming file and key."""
        values: tuple[int, ...] | None = self._list(key, int, "whole numbers", length)
        for value in values or ():
            if isinstance(value, bool) or not 0 <= value <= _MAX:
                raise self.wrong(key, value, f"no whole number from 0 to {_MAX}")
        return values

    def section(self, key: str, defaults: Mapping[str, Any] | None = None) -> "Config | None":
        """A config inside this one, with defaults of its own, or None. Raises ModelError when it is no object."""
        value = self.value((key,))[1]
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.wrong(key, value, "no object")
        return Config(f"{self.where}: {key}", value, defaults or {})

    def switched(self, bias: Bias) -> bool:
        """Whether a bias is there. Raises ModelError as `flag` does."""
        return bias if isinstance(bias, bool) else self.flag(bias)

    def changed(self, values: Mapping[str, Any]) -> "Config":
        """The same config with these values instead of its own."""
        return replace(self, values={**self.values, **values})

    def with_defaults(self, defaults: Mapping[str, Any]) -> "Config":
        """The same config with these defaults."""
        return replace(self, defaults=defaults)

    def wrong(self, key: str, value: object, reason: str) -> ModelError:
        """The error for a key whose value cannot be."""
        return ModelError(f"{self.where}: {key} = {shown(value)} is {reason}", _HINT)

    def _list(self, key: str, kind: type, what: str, length: int | None) -> Any:
        value = self.value((key,))[1]
        if value is None:
            return None
        if not isinstance(value, list | tuple) or not all(isinstance(one, kind) for one in value):
            raise self.wrong(key, value, f"no list of {what}")
        if length is not None and len(value) != length:
            raise ModelError(f"{self.where}: {key} has {len(value)} entries where the model has {length} layers", _HINT)
        return tuple(value)


def layer_number(config: Config) -> int:
    """The number of layers. Raises ModelError where the config says none, or too many."""
    return config.needed(LAYERS, limit=MAX_LAYERS)


def shown(value: object) -> str:
    """A value as JSON would write it, cut to a readable length."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**40 else "a number of more than 40 digits"
    return text if len(text) <= 60 else text[:57] + "…"
