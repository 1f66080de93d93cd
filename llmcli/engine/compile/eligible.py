"""Which models a compiled step can be made for."""

from typing import Any

from llmcli import ranks
from llmcli.inference import LoadRequest
from llmcli.prefill_rules import CONTINUABLE

_QUANTS = ("none", "int4")


def refusal(request: LoadRequest, model: Any, quant: str) -> str | None:
    """Why `model`, loaded as `request` says, decodes without a compiled step; None where it may have one."""
    device, model_type = model.device.type, model.config.model_type
    reasons = (
        (device != "cpu", f"compiled steps are made for CPUs, not for {device}"),
        (quant not in _QUANTS, f"the kernels of bitsandbytes behind {quant} cannot be compiled"),
        (request.kv_dtype in {"fp8", "int8", "int4"}, "K and V are quantized"),
        (request.speculate != "none" or request.draft is not None, "speculation needs steps of several tokens"),
        (ranks.world() > 1, "the model is on several processes"),
        (model_type not in CONTINUABLE, f"{model_type} models keep more than K and V, or keep it in another way"),
    )
    return next((reason for holds, reason in reasons if holds), None)
