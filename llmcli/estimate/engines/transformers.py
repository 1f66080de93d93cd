"""The cache that transformers' DynamicCache(config=…) makes: it grows with every token.

Read in transformers 5.24, cache_utils.py, and proved against it in the tests. A sliding layer keeps one token less than
its window, because the new token makes it whole; until the first decode step it holds the whole prompt. Convolutions
keep as many columns as their kernel is wide, in the dtype that the model runs in; recurrent states are float32.
"""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from llmcli.errors import UsageError
from llmcli.estimate.architecture import Architecture
from llmcli.estimate.dtypes import BYTES, FLOATS, Format, canonical
from llmcli.estimate.engines.kinds import kind_of
from llmcli.estimate.engines.quantized_cache import PACKINGS, quantized_format, quantized_layers
from llmcli.estimate.facts import Attention, Compressed, CrossAttention, Latent, Mixer, Recurrence
from llmcli.estimate.layers import (
    CHUNKED_ATTENTION,
    CROSS_ATTENTION,
    SLIDING_ATTENTION,
    Layers,
    LayerSpec,
    grouped,
    merged,
)
from llmcli.kv_rules import SPARE_ROWS

PROVED_WITH = "5.24.0"
_FLOAT32 = 4


@dataclass(frozen=True, slots=True)
class TransformersRules:
    """The rules of transformers' dynamic cache."""

    name: str = "transformers"

    @property
    def version(self) -> str:
        """The version that is installed, which the project pins to the one that the rules were proved with."""
        try:
            return version("transformers")
        except PackageNotFoundError:
            return PROVED_WITH

    @property
    def step(self) -> None:
        """The model type decides."""

    def reading(self, _chunk: int) -> "TransformersRules":
        """The cache does not depend on it, but for what is held while a prompt is read: layers.in_chunks."""
        return self

    def on(self, _vram: tuple[int, ...] | None) -> "TransformersRules":
        """The same whatever the devices."""
        return self

    def kv_format(self, text: str) -> Format:
        """A float format, or one that QuantizedCache has. Raises UsageError for others."""
        if name := canonical(text):
            return FLOATS[name]
        if quantized := quantized_format(text):
            return quantized
        raise UsageError(
            f"--kv-dtype {text[:40]!r} is nothing that --engine transformers keeps a cache in",
            "Write auto, float32 (fp32), bfloat16 (bf16), float16 (fp16), fp8, int8 or int4.",
        )

    def storage(self, model: Architecture, kv: Format, dtype: str) -> Layers:
        """What every layer of `model` holds. Raises UsageError for one that cannot be held in a quantized format."""
        if kv.name in PACKINGS:
            return quantized_layers(model, kv.name, dtype)
        return grouped(
            spec
            for layer in model.layers
            for spec in merged([_mixer(mixer, kv, BYTES[dtype]) for mixer in layer.mixers])
        )

    def default_kv(self, dtype: str) -> str:
        """The dtype that the model runs in."""
        return dtype

    def inexact(self, _model: Architecture) -> tuple[str, ...]:
        """Nothing: what cannot be known exactly is said by the model's facts."""
        return ()

    def assumptions(self, _model: Architecture) -> tuple[str, ...]:
        """Nothing: the cache follows from the model."""
        return ()


TRANSFORMERS = TransformersRules()


def _mixer(mixer: Mixer, kv: Format, element: int) -> LayerSpec:
    match mixer:
        case Attention():
            heads = mixer.cached_heads or mixer.kv_heads
            row = kv.size(heads * mixer.key_dim) + kv.size(heads * mixer.value_dim)
            return _rows(mixer, row)
        case Latent():
            index = mixer.index_dim * _FLOAT32 if mixer.float_index else kv.size(mixer.index_dim)
            row = kv.size(mixer.rank + mixer.rope_dim) + index
            return _rows(mixer, row)
        case Compressed():
            return _compressed(mixer, kv, element)
        case Recurrence():
            return LayerSpec(mixer.kind, 0, state_bytes=_fixed_bytes(mixer, element))
        case CrossAttention():
            row = 2 * kv.size(mixer.kv_heads * mixer.head_dim)
            return LayerSpec(CROSS_ATTENTION, 0, state_bytes=mixer.tokens * row)


def _rows(mixer: Attention | Latent, row_bytes: int) -> LayerSpec:
    """A row per token, or per token in the window; llmcli keeps a window that is no part of more in a buffer."""
    kind = kind_of(mixer)
    spare = SPARE_ROWS if kind in {SLIDING_ATTENTION, CHUNKED_ATTENTION} else 0
    return LayerSpec(kind, row_bytes, max_tokens=_held(mixer.window), reserve=spare)


def _compressed(mixer: Compressed, kv: Format, element: int) -> LayerSpec:
    """Rows, tokens that wait for theirs, and the overlap with its weights in float32."""
    return LayerSpec(
        mixer.kind,
        kv.size(mixer.row_dim),
        stride=mixer.stride,
        pending_bytes=kv.size(mixer.pending_dim),
        overlap_bytes=mixer.overlap * (element + _FLOAT32),
    )


def _fixed_bytes(mixer: Recurrence, element: int) -> int:
    """Bytes of a state of fixed size; element: of the dtype that the model runs in."""
    columns = mixer.conv_channels * mixer.conv_width * (_FLOAT32 if mixer.float_conv else element)
    return columns + mixer.shift * element + mixer.state * (_FLOAT32 if mixer.float_state else element)


def _held(window: int | None) -> int | None:
    """Tokens that a layer with this window keeps; one of a single token keeps all, as the slice [-0:] does."""
    return window - 1 if window is not None and window > 1 else None
