"""Which layers of a GGUF file see a window only: the architectures that llama.cpp has windows for.

Read in llama.cpp 0.5.0, src/models/*.cpp (load_arch_hparams). An array under attention.sliding_window_pattern names the
layers with a window; a number there, or the architecture's own, is the period of those without. Other architectures
(llama and mistral, qwen2, qwen3, phi3, starcoder2 …) run with full attention, whatever their files say of windows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from llmcli.errors import ModelError
from llmcli.estimate.gguf.keys import Keys
from llmcli.estimate.windows import Window, Windows

_PATTERN = "attention.sliding_window_pattern"
_WINDOW = "attention.sliding_window"


@dataclass(frozen=True, slots=True)
class Pattern:
    """Every n-th layer is full, the last of n or (full_first) the first. period None: the file has to name the layers.

    window: where the file gives none; fixed: always. chunked: in chunks with fixed borders.
    """

    period: int | None
    full_first: bool = False
    window: int = 0
    fixed: bool = False
    chunked: bool = False


_EVERY_4TH = Pattern(4)
_LISTED = Pattern(None)
PATTERNS: Mapping[str, Pattern] = {
    "afmoe": _EVERY_4TH,
    "cohere2": _EVERY_4TH,
    "cohere2moe": Pattern(4, full_first=True),
    "dots3note": _LISTED,
    "exaone-moe": Pattern(4, window=128),
    "exaone4": Pattern(4, window=4096),
    "gemma2": Pattern(2, window=4096),
    "gemma3": Pattern(6),
    "gemma3n": Pattern(5),
    "gemma4": _LISTED,
    "gpt-oss": Pattern(2),
    "granite_swa": _LISTED,
    "laguna": Pattern(4, full_first=True),
    "lfm2": Pattern(0),
    "llama4": Pattern(4, window=8192, fixed=True, chunked=True),
    "maple": _LISTED,
    "mellum": _EVERY_4TH,
    "mimo2": _LISTED,
    "muse-glimmer": _EVERY_4TH,
    "olmo2": _EVERY_4TH,
    "plamo3": Pattern(8),
    "smallthinker": Pattern(4, full_first=True, window=4096, fixed=True),
    "spark2_5": _LISTED,
    "step35": _LISTED,
}
"""GGUF architecture: which of its layers have a window. A period of 0: all."""

_EXAONE4_WITH_WINDOWS = 64


def has_windows(architecture: str, layers: int) -> bool:
    """Whether llama.cpp gives a model of so many layers windows; it tells EXAONE 4's sizes apart by their number."""
    return architecture in PATTERNS and (architecture != "exaone4" or layers == _EXAONE4_WITH_WINDOWS)


def windows_of(keys: Keys) -> Windows:
    """One window or None per layer. Raises ModelError where the file has to name the layers and does not."""
    pattern = PATTERNS.get(keys.architecture)
    if pattern is None or not has_windows(keys.architecture, keys.layers):
        return (None,) * keys.layers
    tokens = keys.size(_WINDOW, pattern.window)
    if keys.architecture == "smallthinker" and keys.config.absent((_WINDOW,)):
        tokens = 0
    if not tokens:
        return (None,) * keys.layers
    window = Window(pattern.window if pattern.fixed else tokens, pattern.chunked)
    return tuple(window if slides else None for slides in _sliding(keys, pattern))


def _sliding(keys: Keys, pattern: Pattern) -> tuple[bool, ...]:
    named = keys.array(_PATTERN)
    if named is not None:
        return tuple(map(bool, named))
    if pattern.period is None:
        raise ModelError(
            f"{keys.config.where}: {keys.architecture}.{_PATTERN} is no list of {keys.all_layers} layers",
            "The file does not say which layers have a window: convert the model anew.",
        )
    period = keys.size(_PATTERN, pattern.period)
    full = 0 if pattern.full_first else period - 1
    return tuple(period == 0 or index % period != full for index in range(keys.layers))
