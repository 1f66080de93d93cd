"""A directory of weights to a transformers model."""

import importlib.metadata
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.distributed import DistributedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from llmcli.engine.failures import reason_of
from llmcli.engine.int4 import quantize_int4
from llmcli.engine.quantize import quant_of, settings_for, stored_as
from llmcli.errors import ModelError, OutOfMemory
from llmcli.inference import Quant
from llmcli.load_rules import parse_dtype
from llmcli.units import some

Layout = Literal["auto"] | dict[str, torch.device] | int
"""Where weights go: a `device_map` of transformers, or the number of processes that get a part of every layer."""


def resolve_dtype(text: str, config: Any, stored: str | None) -> torch.dtype:
    """A name to its dtype; `auto` to the config's, else to what most of the weights are `stored` in, else float32."""
    name = parse_dtype(text)
    if name != "auto":
        chosen: torch.dtype = getattr(torch, name)
        return chosen
    declared = getattr(config, "dtype", None) or getattr(config.get_text_config(decoder=True), "dtype", None)
    if isinstance(declared, torch.dtype):
        return declared
    return getattr(torch, stored) if stored else torch.float32


def dtype_name(dtype: torch.dtype) -> str:
    """Torch's name of a dtype: `bfloat16`."""
    return str(dtype).removeprefix("torch.")


def read_config(path: Path) -> Any:
    """The model's config. Raises ModelError for a type that transformers does not run as a decoder-only model."""
    try:
        config = AutoConfig.from_pretrained(path, trust_remote_code=False, local_files_only=True)
    except Exception as error:
        version = importlib.metadata.version("transformers")
        raise ModelError(
            f"{path}: transformers {version} cannot read this model's config: {reason_of(error)}",
            "A newer architecture needs a newer release; code shipped with a model is never run.",
        ) from error
    if getattr(config, "is_encoder_decoder", False) or type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ModelError(
            f"{path}: {config.model_type!r} is not a decoder-only language model",
            "llmcli runs models that generate text left to right: one prefill, then one token per step.",
        )
    return config


def load_model(path: Path, config: Any, dtype: torch.dtype, quant: Quant, layout: Layout) -> Any:
    """The model, ready for inference. Raises ModelError unless every tensor came from the checkpoint.

    layout: the device that it is put on, as `{"": device}`, "auto" to spread its layers over all that there are, or the
    number of processes, each of which calls this and gets its part.
    """
    placement = _placement(quant, layout)
    if quant not in {"none", "int4"} and stored_as(config) is None:
        placement["quantization_config"] = settings_for(quant, dtype)
    try:
        model, info = AutoModelForCausalLM.from_pretrained(
            path,
            config=config,
            dtype=dtype,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are refused below, by name
            **placement,
        )
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ModelError(f"{path}: cannot be loaded: {reason_of(error)}") from error
    _refuse_on_disk(path, model)
    _refuse_incomplete(path, info)
    _refuse_more_layers(path, config, info)
    model.requires_grad_(requires_grad=False)
    if quant == "int4":
        quantize_int4(model, unpacked=True)
    if quant != "none" and quant_of(model) == "none":
        raise ModelError(
            f"{path}: --quant {quant} would change nothing: {config.model_type!r} has no layers that it quantizes",
            "Load it with --quant none.",
        )
    return model.eval()


def _placement(quant: Quant, layout: Layout) -> dict[str, Any]:
    if isinstance(layout, int):
        return {"distributed_config": DistributedConfig(tp_size=layout)}
    mapped = quant not in {"none", "int4"} or isinstance(layout, str) or layout[""].type != "cpu"
    return {"device_map": layout} if mapped else {}


def _refuse_on_disk(path: Path, model: Any) -> None:
    if "disk" in (getattr(model, "hf_device_map", None) or {}).values():
        raise OutOfMemory(
            f"{path}: GPUs and main memory together are too small for the weights",
            "Use --quant nf4 or a smaller model.",
        )


def _refuse_incomplete(path: Path, info: dict[str, Any]) -> None:
    missing = sorted(info["missing_keys"])
    mismatched = sorted(str(key[0] if isinstance(key, tuple) else key) for key in info["mismatched_keys"])
    for names, what in ((missing, "missing"), (mismatched, "of another shape than config.json says")):
        if names:
            raise ModelError(
                f"{path}: {_tensors(names)} {'is' if len(names) == 1 else 'are'} {what}",
                "The checkpoint is incomplete or belongs to another config: fetch it again.",
            )
    if info.get("error_msgs"):
        raise ModelError(f"{path}: {info['error_msgs'][0]}")


def _refuse_more_layers(path: Path, config: Any, info: dict[str, Any]) -> None:
    """Refuse a checkpoint with more layers than the config says: the rest of the model would be left out."""
    text = config.get_text_config(decoder=True)
    layers = (getattr(text, "num_hidden_layers", None) or 0) + (getattr(text, "num_nextn_predict_layers", None) or 0)
    numbered = ((key, re.search(r"(?:^|\.)(?:layers|layer|h|blocks)\.(\d+)\.", key)) for key in info["unexpected_keys"])
    beyond = sorted(key for key, match in numbered if match and int(match[1]) >= layers)
    if beyond:
        raise ModelError(
            f"{path}: config.json says {layers} layers, the checkpoint holds more: {_tensors(beyond)}",
            "Config and weights do not belong together: fetch the model again.",
        )


def _tensors(names: Sequence[str]) -> str:
    return f"tensor{'' if len(names) == 1 else 's'} {some(names)}"


def load_tokenizer(path: Path) -> Any:
    """The model's tokenizer. Raises ModelError when it cannot be built."""
    try:
        return AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise ModelError(f"{path}: the tokenizer cannot be loaded: {reason_of(error)}") from error
