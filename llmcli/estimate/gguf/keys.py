"""Typed look-ups in a GGUF header: whole numbers, and arrays with one number per layer."""

from dataclasses import dataclass

from llmcli.estimate import config as keys
from llmcli.estimate.config import Config
from llmcli.models.gguf import ArrayLength, GgufHeader

_MAX = 2**40


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one architecture. all_layers: block_count; layers: those of the trunk, without the draft blocks."""

    config: Config
    architecture: str
    all_layers: int
    layers: int

    def size(self, key: str, otherwise: int = 0) -> int:
        """A whole number from 0. Raises ModelError naming file, key and value."""
        return self.config.size(key, otherwise)

    def needed(self, key: str) -> int:
        """A whole number from 1. Raises ModelError naming file, key and value, also when it is missing."""
        return self.config.needed((key,))

    def per_layer(self, key: str, otherwise: int = 0) -> tuple[int, ...]:
        """One number for each layer of the trunk: an array, or one number for all.

        Raises ModelError for other values, and for an array that is not as long as the model is deep.
        """
        value = self.config.values.get(key)
        if value is None:
            return (otherwise,) * self.layers
        if isinstance(value, tuple):
            return self._array(key, value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX:
            raise self.config.wrong(key, _shown(value), f"no whole number from 0 to {_MAX}, nor a list of them")
        return (value,) * self.layers

    def array(self, key: str) -> tuple[int, ...] | None:
        """As `per_layer`, but None where the file has no array under this key."""
        value = self.config.values.get(key)
        return self._array(key, value) if isinstance(value, tuple) else None

    def _array(self, key: str, value: tuple[object, ...]) -> tuple[int, ...]:
        if len(value) not in {self.all_layers, self.layers}:
            raise self.config.wrong(key, value, f"a list of {len(value)} for a model of {self.all_layers} layers")
        numbers: list[int] = []
        for one in value[: self.layers]:
            if not isinstance(one, int) or not 0 <= one <= _MAX:
                raise self.config.wrong(key, one, f"no whole number from 0 to {_MAX}")
            numbers.append(int(one))
        return tuple(numbers)


def keys_of(header: GgufHeader) -> Keys:
    """The keys of a header's architecture. Raises ModelError when block_count is missing or cannot be."""
    architecture = header.architecture
    prefix = f"{architecture}."
    values = {name.removeprefix(prefix): value for name, value in header.metadata.items() if name.startswith(prefix)}
    config = Config(str(header.path), values)
    blocks = config.needed(("block_count",), limit=keys.MAX_LAYERS)
    drafts = config.count(("nextn_predict_layers",), limit=blocks - 1, least=0) if blocks > 1 else 0
    return Keys(config, architecture, blocks, blocks - (drafts or 0))


def vocabulary_of(header: GgufHeader, keys_: Keys) -> int:
    """The number of tokens: the length of the token list, which is never read; 0 where nothing says it."""
    tokens = header.metadata.get("tokenizer.ggml.tokens")
    return tokens.count if isinstance(tokens, ArrayLength) else keys_.size("vocab_size")


def _shown(value: object) -> object:
    return f"a list of {value.count}" if isinstance(value, ArrayLength) else value
