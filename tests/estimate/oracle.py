"""The truth that sizes are held against: the model and the cache that transformers makes of a config.

Built on torch's meta device, where tensors have shapes and no memory, so that any size can be built.
"""

from collections.abc import Iterable

import torch
from transformers import BitsAndBytesConfig, PreTrainedModel
from transformers.initialization import no_tie_weights
from transformers.integrations.bitsandbytes import replace_with_bnb_linear
from transformers.quantizers.base import get_keys_to_not_convert

from llmcli.engine.int4 import hollow_int4
from llmcli.engine.loaded import weight_bytes as engine_weight_bytes
from llmcli.engine.measure_cache import build_model, decode, fill_cache, held_bytes, resident_bytes
from llmcli.estimate.architecture import Architecture
from llmcli.estimate.config import Config
from llmcli.estimate.dtypes import FLOATS
from llmcli.estimate.engines.transformers import TRANSFORMERS
from llmcli.estimate.from_config import from_config
from llmcli.estimate.layers import Layers, peak_bytes, steady_bytes
from llmcli.estimate.weights import weight_bytes


def facts_of(values: dict[str, object]) -> Architecture:
    return from_config(Config("config.json", values))


def storage_of(values: dict[str, object], dtype: str = "bfloat16") -> Layers:
    return TRANSFORMERS.storage(facts_of(values), FLOATS[dtype], dtype)


def build(values: dict[str, object], device: str = "meta", dtype: torch.dtype = torch.bfloat16) -> PreTrainedModel:
    return build_model(values, device, dtype)


def check_cache(values: dict[str, object], lengths: Iterable[int], device: str = "meta") -> None:
    """Assert that prefill peak and steady size equal transformers' for a prompt of every length."""
    check_held(build(values, device), storage_of(values), lengths)


def check_held(model: PreTrainedModel, layers: Layers, lengths: Iterable[int]) -> None:
    """As `check_cache`, for a model that is built: three sequences, one of the first length."""
    for index, length in enumerate(lengths):
        batch, steps = (3, 1) if index else (1, 2)
        cache = fill_cache(model, batch, length, 0)
        assert resident_bytes(cache) == batch * peak_bytes(layers, length), ("end of prefill", length, batch)
        decode(model, cache, batch, steps)
        tokens = length + steps
        assert held_bytes(cache) == batch * steady_bytes(layers, tokens), ("after decode", tokens, batch)


def check_parameters(values: dict[str, object]) -> None:
    """Assert that the parameters, and the parts that are quantized, are those of transformers' model."""
    facts, model = facts_of(values), build(values)
    assert facts.params == sum(parameter.numel() for parameter in model.parameters())
    hollow_int4(model.to(torch.bfloat16))  # the few parameters that transformers keeps in float32 as well
    assert engine_weight_bytes(model) == weight_bytes(facts, "int4", "bfloat16")
    weights, rows = quantized_linears(values)
    assert (facts.linear_params, facts.count.rows) == (weights, rows)


def quantized_linears(values: dict[str, object]) -> tuple[int, int]:
    """Weights and output channels of the layers that bitsandbytes replaces."""
    with no_tie_weights():  # as while a checkpoint is loaded
        model = build(values)
    before = {name: module for name, module in model.named_modules() if hasattr(module, "weight")}
    weights = {name: module.weight.numel() for name, module in before.items() if module.weight is not None}
    rows = {name: getattr(module, "out_features", getattr(module, "nf", 0)) for name, module in before.items()}
    replace_with_bnb_linear(
        model,
        modules_to_not_convert=get_keys_to_not_convert(model),
        quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4"),
    )
    quantized = [name for name, module in model.named_modules() if type(module).__name__ == "Linear4bit"]
    return sum(weights[name] for name in quantized), sum(rows[name] for name in quantized)
