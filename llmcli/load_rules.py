"""What `--dtype`, `--device` and `--quant` may be, alone and together: one check for the flags and for the engine."""

import importlib.util
import re
from collections.abc import Iterable, Mapping
from typing import Any

from llmcli.errors import UsageError
from llmcli.inference import DecodeChoice, Quant, QuantChoice, Speculation

DTYPES = {
    "auto": "auto",
    "float32": "float32",
    "fp32": "float32",
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
    "float16": "float16",
    "fp16": "float16",
}
"""What `--dtype` may be -> torch's name of it; `auto` is the checkpoint's."""

INT8_DTYPE = "float16"
"""What LLM.int8 multiplies in: it casts everything else to this, and back, in every layer."""

FOUR_BIT = 5.0
"""The most bits per weight of a 4-bit GGUF format: Q4_1 has 5, Q4_0 and Q4_K 4.5, the next larger ones 5.5."""

QUANTIZED_SHARE: Mapping[Quant, float] = {"none": 1.0, "int8": 0.6, "nf4": 0.35, "fp4": 0.35, "int4": 0.4}
"""Roughly what is left of 16-bit weights: 8, 4.5 or 5 bits of 16, and an embedding that stays as it is."""

INT4_GROUP = 32
"""Weights of int4 that share a scale and a zero point."""

_INT4_OUTPUTS = 16
"""The kernel of int4 takes layers whose output sizes are multiples of this."""

_DEVICE = re.compile(r"(auto|cpu|mps|cuda)(?:(?<=cuda):(\d+))?")


def parse_dtype(text: str) -> str:
    """Torch's name of a dtype, or `auto`. Raises UsageError for a name that is not known."""
    if text not in DTYPES:
        raise UsageError(f"--dtype {text!r} is not known", f"Allowed: {', '.join(DTYPES)}.")
    return DTYPES[text]


def parse_device(text: str) -> tuple[str, int]:
    """The kind of device (auto, cpu, mps, cuda) and its index. Raises UsageError for what is not known."""
    match = _DEVICE.fullmatch(text)
    if not match:
        raise UsageError(f"--device {text!r} is not known", "Allowed: auto, cpu, mps, cuda, cuda:N.")
    return match[1], int(match[2] or 0)


def refuse_spread(device: str, quant: QuantChoice) -> None:
    """Raise UsageError for what cannot be where layers are to be spread over all devices (`--device-map`).

    device: `--device`, which may name one of them. quant: `--quant`, which may be for a CPU alone.
    """
    if quant == "int4":
        raise UsageError(
            "--device-map auto with --quant int4 is not possible: its kernels are for the CPU, not for GPUs",
            "Use --quant nf4, or leave --device-map out.",
        )
    if device not in {"auto", "cuda"}:
        raise UsageError(
            f"--device-map auto with --device {device} is not possible: one spreads layers over all GPUs, "
            "the other names one device",
            "Leave one of them out.",
        )


def refuse_graph(decode: DecodeChoice, device: str) -> None:
    """Raise UsageError where `--decode graph` goes with a kind of `device` that has no CUDA graphs."""
    if decode == "graph" and device not in {"auto", "cuda"}:
        raise UsageError(
            f"--decode graph with --device {device} is not possible: CUDA graphs need a CUDA device",
            "Leave --decode out: auto takes what is fastest there.",
        )


def resolve_quant(choice: QuantChoice, packed_bits: float | None, device: str) -> Quant:
    """What is done to the weights. `auto` quantizes only what was packed to 4 bits already: nf4 on CUDA, int4 on a CPU.

    packed_bits: of the GGUF file that the weights come from, or None. device: cpu, mps or cuda.
    """
    if choice != "auto":
        return choice
    if packed_bits is None or packed_bits > FOUR_BIT:
        return "none"
    return {"cuda": "nf4", "cpu": "int4"}.get(device, "none")  # type: ignore[return-value]


def int4_takes(outputs: int, inputs: int) -> bool:
    """Whether int4's kernel multiplies with a linear layer of these sizes."""
    return outputs % _INT4_OUTPUTS == 0 and inputs % INT4_GROUP == 0


def refuse_quant(quant: QuantChoice, dtype: str, device: str) -> None:
    """Raise UsageError, with the reason, where `quant` cannot be had with `dtype` (torch's name) on a kind of `device`.

    float16 is the one dtype of LLM.int8; bitsandbytes has 4-bit kernels for Metal, and none for int8.
    """
    if quant == "int8" and dtype not in {"auto", INT8_DTYPE}:
        raise UsageError(
            f"--quant int8 with --dtype {dtype} is not possible: LLM.int8 multiplies in {INT8_DTYPE}",
            f"Leave --dtype out, or take --quant nf4, which runs in {dtype}.",
        )
    if quant == "int4" and device in {"cuda", "mps"}:
        raise UsageError(
            f"--quant int4 does not run on {device}: its kernels are for the CPU",
            "Use --quant nf4, or --device cpu.",
        )
    if quant == "int8" and device == "mps":
        raise UsageError(
            "--quant int8 does not run on mps: bitsandbytes has no int8 kernels for Metal",
            "Use --quant nf4, or --device cpu.",
        )


def require_bitsandbytes(quant: QuantChoice) -> None:
    """Raise UsageError when `quant` needs bitsandbytes and it is not there."""
    if quant not in {"auto", "none", "int4"} and importlib.util.find_spec("bitsandbytes") is None:
        raise UsageError(
            f"--quant {quant} is done by bitsandbytes, which is not installed here",
            "It has no build for every platform; --quant none needs none.",
        )


def refuse_speculation(speculate: Speculation, draft: str | None, decode: DecodeChoice) -> None:
    """Raise UsageError, with the reason, where speculation cannot be had as it is asked for. draft: a model's name."""
    if speculate != "none" and draft is not None:
        raise UsageError(
            f"--speculate {speculate} and --draft {draft} are two sources of drafts, and a request has one",
            "Leave one of them out.",
        )
    asked = f"--draft {draft}" if draft is not None else None if speculate == "none" else f"--speculate {speculate}"
    if asked is not None and decode in {"graph", "compiled"}:
        raise UsageError(
            f"{asked} with --decode {decode} is not possible: that path makes exactly one token per step",
            "Leave --decode out, or do without drafts.",
        )


def batch_notice(batches: Iterable[int], speculate: Speculation, draft: str | None) -> str | None:
    """What to say when drafts are asked for and some batch has several rows; None where there is nothing to say.

    Rows agree with different numbers of drafts, so that a batch would no longer be at one length.
    """
    larger = sorted({batch for batch in batches if batch > 1})
    if not larger or (speculate == "none" and draft is None):
        return None
    return f"no speculation at batch {', '.join(map(str, larger))}: drafts serve a batch of one"


def stored_quant(config: Mapping[str, Any]) -> Quant | None:
    """What bitsandbytes has made of a checkpoint already, told from its config.json; None for all others."""
    stored = config.get("quantization_config")
    if not isinstance(stored, Mapping) or stored.get("quant_method", "bitsandbytes") != "bitsandbytes":
        return None
    if stored.get("load_in_8bit") is True:
        return "int8"
    if stored.get("load_in_4bit") is not True:
        return None
    return "nf4" if stored.get("bnb_4bit_quant_type") == "nf4" else "fp4"


def refuse_requantizing(choice: QuantChoice, stored: Quant, name: str) -> None:
    """Raise UsageError when a checkpoint that is `stored` quantized is to be quantized in another way."""
    if choice not in {"auto", "none", stored}:
        raise UsageError(
            f"--quant {choice}: the weights of {name} are stored in {stored} already, and cannot be quantized again",
            "Leave --quant out, or take the model's 16-bit weights.",
        )
