"""What transformers' QuantizedCache keeps: layers of full attention, quantized as they are read.

Read in transformers 5.24, cache_utils.py. Fp8QuantizedLayer keeps a byte per number, and for the keys and for the
values of a layer one float32 scale each, whatever the batch. QuantoQuantizedLayer and HQQQuantizedLayer pack groups of
64 numbers and keep two more per group, scale and zero, in the dtype that the model runs in; a prompt is quantized
whole, and of what decode adds the last 0 to 127 tokens wait unquantized until there are 128.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from llmcli.errors import UsageError
from llmcli.estimate.architecture import Architecture
from llmcli.estimate.dtypes import BYTES, Format
from llmcli.estimate.facts import Attention, Latent, Mixer
from llmcli.estimate.layers import FULL_ATTENTION, Layers, LayerSpec, grouped, merged
from llmcli.kv_rules import kv_name

GROUP = 64
WAITING = 127
_SCALE = 4
_PACKED = (
    f"as optimum-quanto (int4) or hqq pack it: groups of {GROUP} numbers with a scale and a zero each",
    f"0 to {WAITING} of the last tokens are unquantized at any time: counted as {WAITING}",
)


@dataclass(frozen=True, slots=True)
class Packing:
    """How numbers are kept. bits: of each; grouped: in groups, and the last tokens not at all."""

    bits: int
    grouped: bool = True


PACKINGS: Mapping[str, Packing] = {"fp8": Packing(8, grouped=False), "int8": Packing(8), "int4": Packing(4)}


def quantized_format(text: str) -> Format | None:
    """The format that `text` names, at 16 bits per scale; None when it is not one of PACKINGS."""
    packing = PACKINGS.get(name := kv_name(text))
    if packing is None:
        return None
    return _format(name, packing, 2)


def quantized_layers(model: Architecture, name: str, dtype: str) -> Layers:
    """What every layer of `model` holds in the format `name`; dtype: what the model runs in.

    Raises UsageError for a model with layers of another kind, which QuantizedCache refuses.
    """
    packing, element = PACKINGS[name], BYTES[dtype]
    kv = _format(name, packing, element)
    return grouped(
        spec
        for layer in model.layers
        for spec in merged([_spec(mixer, kv, packing, element) for mixer in layer.mixers])
    )


def _format(name: str, packing: Packing, element: int) -> Format:
    if not packing.grouped:
        return Format(name, 1)
    return Format(name, GROUP * packing.bits // 8 + 2 * element, GROUP, inexact=_PACKED)


def _spec(mixer: Mixer, kv: Format, packing: Packing, element: int) -> LayerSpec:
    keys, values = _widths(mixer, kv.name)
    if packing.grouped and (keys % GROUP or values % GROUP):
        raise UsageError(
            f"--kv-dtype {kv.name} packs groups of {GROUP} numbers, and a token of this model has {keys} of keys and "
            f"{values} of values in a layer",
            "Take fp8, or leave --kv-dtype out.",
        )
    row = kv.size(keys) + kv.size(values)
    if not packing.grouped:
        return LayerSpec(FULL_ATTENTION, row, shared_bytes=2 * _SCALE)
    return LayerSpec(FULL_ATTENTION, row, tail_tokens=WAITING, tail_bytes=(keys + values) * element)


def _widths(mixer: Mixer, name: str) -> tuple[int, int]:
    """Elements of the keys and of the values of a token."""
    match mixer:
        case Attention(window=None, kind=(None | "full_attention")):
            heads = mixer.cached_heads or mixer.kv_heads
            return heads * mixer.key_dim, heads * mixer.value_dim
        case Latent(window=None, index_dim=0, kind=(None | "full_attention")):
            return mixer.rank, mixer.rope_dim
    raise UsageError(
        f"--kv-dtype {name}: transformers quantizes the cache of full-attention layers only, and this model has others",
        "Leave --kv-dtype out, or take float32, bfloat16 or float16.",
    )
