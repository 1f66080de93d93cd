"""How each engine can quantize weights, and the bits that they take then."""

from collections.abc import Mapping
from dataclasses import dataclass

from llmcli.errors import UsageError

NONE = "none"
INT4 = "int4"


@dataclass(frozen=True, slots=True)
class Scheme:
    """What quantization makes of weights.

    bits: of each quantized weight, its share of scales included. linear, experts, others: whether the weights of linear
    layers, those of routed experts, and those outside both (embeddings, head, norms) are quantized. note: what was
    assumed, or the source. rest: what stays as it is, where that is to be said.
    """

    bits: float
    linear: bool = True
    experts: bool = True
    others: bool = False
    note: str = ""
    rest: str = "embeddings, head and norms"


_TRANSFORMERS: Mapping[str, Scheme] = {
    "int8": Scheme(8, experts=False, note="linear layers at 8 bits each and a scale per row"),
    "nf4": Scheme(4.5, experts=False, note="linear layers at 4.5 bits each"),
    "fp4": Scheme(4.5, experts=False, note="linear layers at 4.5 bits each"),
    INT4: Scheme(
        5,
        experts=False,
        note="linear layers at 4 bits, a scale and a zero per 32, the head at 8 bits and a scale per row",
        rest="embeddings and norms",
    ),
}
"""Exact sizes of these are in weights.py."""

_GROUP_OF_128 = "linear layers at 4 bits, a 16-bit scale and a 4-bit zero per 128"
_VLLM: Mapping[str, Scheme] = {
    "fp8": Scheme(8, note="linear layers at 8 bits"),
    "int8": Scheme(8, note="linear layers at 8 bits"),
    "awq": Scheme(4 + (16 + 4) / 128, note=_GROUP_OF_128),
    "gptq": Scheme(4 + (16 + 4) / 128, note=_GROUP_OF_128),
}

_MXFP4 = Scheme(4.25, linear=False, note="experts at 4 bits and a scale of 8 bits per 32")
_WHOLE_FILE: Mapping[str, float] = {
    "iq2_xxs": 2.3824,
    "iq2_m": 2.9294,
    "q2_k": 3.1593,
    "q3_k_s": 3.6429,
    "iq3_m": 3.7628,
    "q3_k_m": 3.9960,
    "q3_k_l": 4.2979,
    "iq4_xs": 4.4597,
    "q4_k_s": 4.6672,
    "q4_k_m": 4.8944,
    "q5_k_s": 5.5704,
    "q5_k_m": 5.7036,
    "q6_k": 6.5633,
    "q8_0": 8.5008,
}
"""Bits per weight of a whole file, norms and embeddings included."""

_UNIFORM: Mapping[str, float] = {"q4_0": 4.5, "iq4_nl": 4.5, "q4_1": 5.0, "q5_0": 5.5, "q5_1": 6.0}
"""Bits per weight of a tensor: a block of 32 weights has one or two 16-bit scales."""

_ALIASES = {"q4_k": "q4_k_m", "q5_k": "q5_k_m", "q3_k": "q3_k_m", "fp16": "f16", "fp32": "f32"}
_MEASURED = "whole-file bits per weight that llama.cpp publishes for Llama-3.1-8B; small models take more"
_BLOCKS = "bits per weight of its blocks; a file keeps some tensors in larger formats"
_LLAMA_CPP: Mapping[str, Scheme] = {
    "f32": Scheme(32, others=True),
    "f16": Scheme(16, others=True),
    "bf16": Scheme(16, others=True),
    "mxfp4": _MXFP4,
    **{name: Scheme(bits, others=True, note=_MEASURED) for name, bits in _WHOLE_FILE.items()},
    **{name: Scheme(bits, others=True, note=_BLOCKS) for name, bits in _UNIFORM.items()},
}

SCHEMES: Mapping[str, Mapping[str, Scheme]] = {
    "transformers": _TRANSFORMERS,
    "llama.cpp": _LLAMA_CPP,
    "vllm": _VLLM,
}
"""Engine: what its weights can be quantized to."""

STORED: Mapping[str, Scheme] = {
    "fp8": Scheme(8, note="linear layers at 8 bits"),
    "mxfp4": _MXFP4,
    "awq": _VLLM["awq"],
    "gptq": _VLLM["gptq"],
}
"""What quantization methods of checkpoints make of weights."""


def check_quant(text: str, engine: str) -> str:
    """The quantization that `--quant` names. Raises UsageError naming what the engine has."""
    name = text.strip().lower()
    name = _ALIASES.get(name, name) if engine == "llama.cpp" else name
    schemes = SCHEMES.get(engine, {})
    if name != NONE and name not in schemes:
        raise UsageError(
            f"--quant {text[:40]!r} is nothing that --engine {engine} makes of weights",
            f"Allowed: {', '.join((NONE, *schemes))}.{_elsewhere(name)}",
        )
    return name


def _elsewhere(name: str) -> str:
    """Which other engines have it."""
    others = [engine for engine, schemes in SCHEMES.items() if _ALIASES.get(name, name) in schemes]
    return f" It is for --engine {' or '.join(others)}." if others else ""
