"""Which models a compiled step can be made for."""

from llmcli import ranks
from llmcli.engine.loaded import Loaded
from llmcli.prefill_rules import CONTINUABLE

_QUANTS = ("none", "int4")


def refusal(loaded: Loaded) -> str | None:
    """Why a model decodes without a compiled step, as it has been loaded; None where it may have one."""
    device, model_type, quant = loaded.device.type, loaded.model.config.model_type, loaded.info.quant
    reasons = (
        (device != "cpu", f"compiled steps are made for CPUs, not for {device}"),
        (quant not in _QUANTS, f"the kernels of bitsandbytes behind {quant} cannot be compiled"),
        (loaded.kv.quantized is not None, "K and V are quantized"),
        (loaded.lookup or loaded.draft is not None, "speculation needs steps of several tokens"),
        (ranks.world() > 1, "the model is on several processes"),
        (model_type not in CONTINUABLE, f"{model_type} models keep more than K and V, or keep it in another way"),
    )
    return next((reason for holds, reason in reasons if holds), None)
