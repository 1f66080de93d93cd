"""Which layers see a window only, as each model type's config says it.

Every function takes the config and the number of layers, and returns one window or None per layer.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from llmcli.errors import ModelError
from llmcli.estimate.config import Config, shown
from llmcli.estimate.layers import CHUNKED_ATTENTION, FULL_ATTENTION, SLIDING_ATTENTION


@dataclass(frozen=True, slots=True)
class Window:
    """The tokens that a query can see, itself included; chunked: in chunks with fixed borders."""

    tokens: int
    chunked: bool = False


Windows = tuple[Window | None, ...]
WindowRule = Callable[[Config, int], Windows]
WindowSize = Callable[[Config], int | None]

SLIDING = ("sliding_window",)
CHUNK = ("attention_chunk_size",)


def cache_rule(config: Config, layers: int) -> Windows:
    """What transformers' cache takes from any config: layer_types, else one window or chunk for all layers."""
    if (types := layer_types(config, layers)) is not None:
        return types
    if window := config.count(SLIDING):
        return (Window(window),) * layers
    if chunk := config.count(CHUNK):
        return (Window(chunk, chunked=True),) * layers
    return (None,) * layers


def from_flag(config: Config, layers: int) -> Windows:
    """Qwen2 and its relatives: use_sliding_window switches windows on, from layer max_window_layers on."""
    if (types := layer_types(config, layers)) is not None:
        return types
    window = config.count(SLIDING) if config.flag("use_sliding_window") else None
    first = config.size("max_window_layers")
    return tuple(Window(window) if window and index >= first else None for index in range(layers))


def no_window(_config: Config, layers: int) -> Windows:
    """Full attention, whatever the config says of windows."""
    return (None,) * layers


def listed(config: Config, layers: int) -> Windows:
    """The windows that layer_types names, and none without such a list."""
    return layer_types(config, layers) or (None,) * layers


def every(period: str | None, default: int, *, first: bool = False, window: WindowSize | None = None) -> WindowRule:
    """Windows in all layers but every n-th, n being the config's `period`, or `default`.

    first: the layers 0, n, 2n, … are the ones without, instead of n - 1, 2n - 1, …. window: its size, where it is not
    sliding_window. Without a window all layers see everything; layer_types wins over all of this.
    """

    def rule(config: Config, layers: int) -> Windows:
        if (types := layer_types(config, layers, window(config) if window else None)) is not None:
            return types
        tokens = (window or _sliding)(config)
        n = config.size(period, default) if period else default
        skipped = 0 if first else n - 1
        return tuple(Window(tokens) if tokens and n and index % n != skipped else None for index in range(layers))

    return rule


def narrowed(rule: WindowRule, when: Callable[[Config], bool]) -> WindowRule:
    """`rule` with windows of half the size where `when` holds: the other half looks ahead (Gemma3TextConfig)."""

    def narrow(config: Config, layers: int) -> Windows:
        windows = rule(config, layers)
        if not when(config):
            return windows
        return tuple(one and replace(one, tokens=one.tokens // 2 + 1) for one in windows)

    return narrow


def layer_types(config: Config, layers: int, window: int | None = None) -> Windows | None:
    """The windows that layer_types names; None where the config has no such list. Raises ModelError for other types.

    window: the size of a sliding one, where it is not sliding_window.
    """
    types = config.texts("layer_types", layers)
    if types is None:
        return None
    return tuple(_window(config, name, window) for name in types)


def _sliding(config: Config) -> int | None:
    return config.count(SLIDING)


def _window(config: Config, name: str, window: int | None) -> Window | None:
    if name == FULL_ATTENTION:
        return None
    if name == SLIDING_ATTENTION:
        return Window(window or config.needed(SLIDING))
    if name == CHUNKED_ATTENTION:
        return Window(config.needed(CHUNK), chunked=True)
    raise ModelError(
        f"{config.where}: layer_types has {shown(name)}, which is no kind of attention that this model type has",
        f"Known here: {FULL_ATTENTION}, {SLIDING_ATTENTION}, {CHUNKED_ATTENTION}.",
    )
