"""Which layers of mixtures of experts see a window only, where layer_types does not say it.

Each rule is that of the type's config class in transformers 5.24 (`__post_init__`).
"""

from collections.abc import Callable

from llmcli.estimate.config import Config
from llmcli.estimate.windows import CHUNK, SLIDING, Window, WindowRule, Windows, layer_types, no_window


def typed(otherwise: WindowRule) -> WindowRule:
    """What layer_types names; `otherwise` where the config has no such list."""

    def rule(config: Config, layers: int) -> Windows:
        types = layer_types(config, layers)
        return otherwise(config, layers) if types is None else types

    return rule


def where(slides: Callable[[int, int], bool]) -> WindowRule:
    """Windows in the layers for which `slides` (index, number of layers) holds."""

    def rule(config: Config, layers: int) -> Windows:
        window = config.count(SLIDING)
        return tuple(Window(window) if window and slides(index, layers) else None for index in range(layers))

    return typed(rule)


full_unless_typed = typed(no_window)
"""Full attention, but what layer_types names."""


def all_if_flag(config: Config, layers: int) -> Windows:
    """Qwen3-MoE: use_sliding_window switches the window of every layer on."""
    window = config.count(SLIDING) if config.flag("use_sliding_window") else None
    return (Window(window) if window else None,) * layers


def alternate_if_flag(config: Config, layers: int) -> Windows:
    """Qwen2-MoE: use_sliding_window switches windows on, in every other layer below max_window_layers."""
    window = config.count(SLIDING) if config.flag("use_sliding_window") else None
    first = config.size("max_window_layers")
    return tuple(Window(window) if window and index % 2 == 0 and index < first else None for index in range(layers))


def from_layer(config: Config, layers: int) -> Windows:
    """dots.llm1: windows from layer max_window_layers on."""
    window, first = config.count(SLIDING), config.size("max_window_layers")
    return tuple(Window(window) if window and index >= first else None for index in range(layers))


def prefixed(config: Config, layers: int) -> Windows:
    """Cohere 2 MoE: one period in the first dense layers, another in the others, which count from one again."""
    window = config.count(SLIDING)
    prefix = min(config.size("first_k_dense_replace"), layers)
    first = config.count(("prefix_dense_sliding_window_pattern",)) or 1
    period = config.count(("sliding_window_pattern",)) or 1
    places = [(index + 1, first) for index in range(prefix)]
    places += [(index + 1, period) for index in range(layers - prefix)]
    return tuple(Window(window) if window and place % n else None for place, n in places)


def chunks(config: Config, layers: int) -> Windows:
    """Llama 4: chunks in the layers with rotary positions, which no_rope_layers marks with 1."""
    chunk = config.count(CHUNK)
    rotary = config.counts("no_rope_layers") or ()
    if rotary:
        rotary = config.counts("no_rope_layers", layers) or ()
    else:
        period = config.count(("no_rope_layer_interval",)) or 1
        rotary = tuple((index + 1) % period for index in range(layers))
    return tuple(Window(chunk, chunked=True) if chunk and turns else None for turns in rotary)


def one_more(rule: WindowRule) -> WindowRule:
    """MiMo-V2: sliding_window_size, where given, counts the previous tokens only; it overrides sliding_window."""

    def counted(config: Config, layers: int) -> Windows:
        previous = config.count(("sliding_window_size",))
        return rule(config if previous is None else config.changed({"sliding_window": previous + 1}), layers)

    return counted
