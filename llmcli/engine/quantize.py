"""Quantization by bitsandbytes: what is asked of it, and what a model in memory has become."""

from collections.abc import Iterator
from typing import Any

import torch
from transformers import BitsAndBytesConfig

from llmcli.engine.int4 import int4_modules
from llmcli.inference import LoadRequest, Quant
from llmcli.load_rules import (
    parse_dtype,
    refuse_quant,
    refuse_requantizing,
    require_bitsandbytes,
    resolve_quant,
    stored_quant,
)
from llmcli.units import percent_text

_FEW = 0.5
"""Below this share of quantized weights a person should know that most of them stay as they are."""


def choose_quant(request: LoadRequest, stored: Quant | None, device: torch.device) -> Quant:
    """How the weights will be held. stored: what they were quantized to before. Raises UsageError with the reason."""
    if stored is not None:
        refuse_requantizing(request.quant, stored, request.name)
    quant = stored or resolve_quant(request.quant, request.packed_bits, device.type)
    refuse_quant(quant, parse_dtype(request.dtype), device.type)
    require_bitsandbytes(quant)
    return quant


def stored_as(config: Any) -> Quant | None:
    """What the checkpoint of a transformers config was quantized to by bitsandbytes, or None."""
    settings = getattr(config, "quantization_config", None)
    return None if settings is None else stored_quant({"quantization_config": settings})


def settings_for(quant: Quant, dtype: torch.dtype) -> BitsAndBytesConfig:
    """What bitsandbytes is asked for; 4-bit weights are multiplied in `dtype`, int8 always in float16."""
    if quant == "int8":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=quant, bnb_4bit_compute_dtype=dtype)


def quant_of(model: Any) -> Quant:
    """What the weights of a model in memory are in; `none` when no layer is quantized."""
    if next(int4_modules(model), None) is not None:
        return "int4"
    for parameter in model.parameters():
        if (state := getattr(parameter, "quant_state", None)) is not None:
            return "nf4" if state.quant_type == "nf4" else "fp4"
        if parameter.dtype == torch.int8:
            return "int8"
    return "none"


def few_quantized_notice(model: Any, params: int) -> str | None:
    """A notice when quantization leaves most of the weights as they are: bitsandbytes takes linear layers only."""
    quant = quant_of(model)
    if quant == "none":
        return None
    if quant == "int4":
        reached = sum(module.out_features * module.in_features for module in int4_modules(model))
        left = "not embeddings, not the experts of a mixture, and none whose sizes do not divide by its groups of 32"
    else:
        reached = sum(map(_weights, model.parameters()))
        left = "not embeddings and not the experts of a mixture"
    share = reached / params
    if share >= _FEW:
        return None
    return f"--quant {quant} reaches {percent_text(share)} of the weights: it takes linear layers, {left}"


def _weights(parameter: Any) -> int:
    """The weights in a quantized parameter, however they are packed; 0 for the others."""
    state = getattr(parameter, "quant_state", None)
    if state is not None:
        return int(torch.Size(state.shape).numel())
    return parameter.numel() if parameter.dtype == torch.int8 else 0


def scales(model: Any) -> Iterator[torch.Tensor]:
    """The scales that bitsandbytes keeps beside its quantized weights: per block of 4-bit ones, per row of int8.

    With double quantization those of the blocks are packed themselves, and have scales of their own.
    """
    for module in model.modules():
        weight: Any = getattr(module, "weight", None)
        if (state := getattr(weight, "quant_state", None)) is not None:
            yield state.absmax
            if getattr(state, "state2", None) is not None:
                yield state.state2.absmax
        elif getattr(weight, "dtype", None) == torch.int8:
            # It moves from the parameter into the layer's state at the first forward.
            scale = weight.SCB if weight.SCB is not None else module.state.SCB
            if scale is not None:
                yield scale
