"""The caches that llama.cpp reserves when it makes a context: all of it at the start, none later.

Read in llama.cpp 0.5.0 (as vendored in llama-cpp-python 0.3.36): src/llama-context.cpp (how a context is rounded),
llama-kv-cache.cpp, llama-kv-cache-iswa.cpp, llama-kv-cache-dsa.cpp, llama-memory-recurrent.cpp and llama-hparams.cpp.
Settings of its programs: every sequence has a part of the context of its own (no --kv-unified), 512 tokens per step
(--ubatch-size), no full cache for layers with a window (no --swa-full), flash attention on.
"""

from dataclasses import dataclass, replace

from llmcli.errors import ModelError, UsageError
from llmcli.estimate.architecture import Architecture
from llmcli.estimate.dtypes import Format
from llmcli.estimate.engines.kinds import kind_of
from llmcli.estimate.engines.kv_types import llama_cpp_format
from llmcli.estimate.facts import Attention, CrossAttention, Latent, Mixer, Recurrence
from llmcli.estimate.gguf.architectures import KNOWN, architecture_of
from llmcli.estimate.gguf.windows import has_windows
from llmcli.estimate.layers import (
    CHUNKED_ATTENTION,
    CROSS_ATTENTION,
    FULL_ATTENTION,
    HYBRID,
    HYBRID_SLIDING,
    SLIDING_ATTENTION,
    Layers,
    LayerSpec,
    grouped,
    merged,
)

READ_IN = "0.5.0"
CELLS = 256
"""The tokens of a sequence, and those of a window, are reserved in multiples of it."""

UBATCH = 512
_FLOAT32 = 4
_EXPANDED = frozenset({"minicpm3", "plm"})
"""Latent attention that it caches as the keys and values of all heads."""

_WITHOUT_WINDOWS = {SLIDING_ATTENTION: FULL_ATTENTION, CHUNKED_ATTENTION: FULL_ATTENTION, HYBRID_SLIDING: HYBRID}
"""What layers with a window are in an architecture that it has no windows for."""


@dataclass(frozen=True, slots=True)
class LlamaCppRules:
    """The rules of llama.cpp. ubatch: its --ubatch-size, in tokens."""

    name: str = "llama.cpp"
    version: str = READ_IN
    ubatch: int = UBATCH

    @property
    def step(self) -> int:
        """Its --ubatch-size."""
        return self.ubatch

    def reading(self, chunk: int) -> "LlamaCppRules":
        """With another --ubatch-size."""
        return replace(self, ubatch=chunk)

    def on(self, _vram: tuple[int, ...] | None) -> "LlamaCppRules":
        """The same whatever the devices."""
        return self

    def default_kv(self, _dtype: str) -> str:
        """f16, whatever the weights are in."""
        return "f16"

    def kv_format(self, text: str) -> Format:
        """A float or one of ggml's block formats. Raises UsageError for others."""
        return llama_cpp_format(text)

    def storage(self, model: Architecture, kv: Format, _dtype: str) -> Layers:
        """What every layer of `model` holds, for one of its sequences.

        Raises UsageError where blocks of `kv` do not divide a head, ModelError for what it has no cache for.
        """
        place = _Place(architecture_of(model.language_type), kv, self.ubatch, _windowed(model))
        return grouped(spec for layer in model.layers for spec in merged([place.spec(mixer) for mixer in layer.mixers]))

    def inexact(self, model: Architecture) -> tuple[str, ...]:
        """A model that llama.cpp does not have, or one that reads another encoder."""
        reasons = []
        if architecture_of(model.language_type) not in KNOWN and not model.inexact:
            reasons.append(f"llama.cpp {READ_IN} does not have {model.language_type}: sized by its general rules")
        if any(isinstance(mixer, CrossAttention) for layer in model.layers for mixer in layer.mixers):
            reasons.append(f"llama.cpp {READ_IN} has no cache for cross-attention: sized as if it had")
        return tuple(reasons)

    def assumptions(self, model: Architecture) -> tuple[str, ...]:
        """The settings that the sizes hold for."""
        windows = _windowed(model) and any(
            getattr(mixer, "window", None) for layer in model.layers for mixer in layer.mixers
        )
        step = f", --ubatch-size {self.ubatch}, no --swa-full" if windows else ""
        return (f"llama.cpp: one sequence per slot, no --kv-unified{step}; a context is rounded up to {CELLS} tokens",)


LLAMA_CPP = LlamaCppRules()


def _windowed(model: Architecture) -> bool:
    return has_windows(architecture_of(model.language_type), model.layer_count)


@dataclass(frozen=True, slots=True)
class _Place:
    """One architecture in one format. windowed: llama.cpp gives it windows."""

    architecture: str
    kv: Format
    ubatch: int
    windowed: bool

    def spec(self, mixer: Mixer) -> LayerSpec:
        if isinstance(mixer, Attention):
            return self._rows(mixer, mixer.window, ((mixer.key_dim, mixer.kv_heads), (mixer.value_dim, mixer.kv_heads)))
        if isinstance(mixer, Latent):
            return self._rows(mixer, mixer.window, self._latent(mixer))
        if isinstance(mixer, Recurrence):
            columns = mixer.conv_channels * max(0, mixer.conv_width - 1)
            return LayerSpec(self._kind(mixer.kind), 0, state_bytes=_FLOAT32 * (columns + mixer.shift + mixer.state))
        if isinstance(mixer, CrossAttention):
            row = self._row(((mixer.head_dim, mixer.kv_heads), (mixer.head_dim, mixer.kv_heads)))
            return LayerSpec(CROSS_ATTENTION, 0, state_bytes=-(-mixer.tokens // CELLS) * CELLS * row)
        raise ModelError(
            f"{self.architecture} cannot be sized for llama.cpp: how it stores {type(mixer).__name__.lower()} rows is "
            "not known here",
            "Leave --engine out: transformers' cache is known.",
        )

    def _latent(self, mixer: Latent) -> tuple[tuple[int, int], ...]:
        """Widths and numbers of what one token leaves."""
        if self.architecture in _EXPANDED:
            return ((mixer.nope_dim + mixer.rope_dim, mixer.heads), (mixer.value_dim, mixer.heads))
        return ((mixer.rank + mixer.rope_dim, 1), (mixer.index_dim, 1))

    def _rows(self, mixer: Attention | Latent, window: int | None, parts: tuple[tuple[int, int], ...]) -> LayerSpec:
        most = window + self.ubatch if window and self.windowed else None
        kind = self._kind(kind_of(mixer))
        return LayerSpec(kind, self._row(parts), max_tokens=most, peak_tokens=most, granule=CELLS)

    def _kind(self, kind: str) -> str:
        return kind if self.windowed else _WITHOUT_WINDOWS.get(kind, kind)

    def _row(self, parts: tuple[tuple[int, int], ...]) -> int:
        for width, _ in parts:
            if width % self.kv.elements:
                raise UsageError(
                    f"--kv-dtype {self.kv.name} has blocks of {self.kv.elements} numbers, and the heads of this model "
                    f"are {width} wide: llama.cpp refuses it",
                    "Write f16, bf16 or f32.",
                )
        return sum(self.kv.size(width * number) for width, number in parts)
