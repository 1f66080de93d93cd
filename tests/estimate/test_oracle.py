"""Every model type that can be sized, against the model and the cache that transformers builds from its config."""

import pytest
import torch
import transformers
from tiny import FLAGS, tiny
from transformers import AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig, DynamicCache
from transformers.initialization import no_tie_weights
from transformers.integrations.bitsandbytes import replace_with_bnb_linear
from transformers.quantizers.base import get_keys_to_not_convert

from llmcli.estimate.class_defaults import CLASS_DEFAULTS
from llmcli.estimate.config import Config
from llmcli.estimate.families import FAMILIES
from llmcli.estimate.from_config import from_config
from llmcli.estimate.layers import peak_bytes, steady_bytes

VARIANTS = {
    "as it is": {},
    "tied": {"tie_word_embeddings": True},
    "all flags on": {"tie_word_embeddings": False} | dict.fromkeys(FLAGS, True),
    "all flags off": {"tie_word_embeddings": False} | dict.fromkeys(FLAGS, False),
    "as many KV heads as heads": {"num_key_value_heads": 4},
}
EACH_TYPE = pytest.mark.parametrize("model_type", sorted(FAMILIES))
EACH_VARIANT = pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)


def build(values: dict[str, object], device: str = "meta") -> transformers.PreTrainedModel:
    config = AutoConfig.for_model(**values)
    with torch.device(device):
        return AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()


def held_bytes(cache: DynamicCache) -> int:
    return sum(x.numel() * x.element_size() for layer in cache.layers for x in (layer.keys, layer.values))


@EACH_VARIANT
@EACH_TYPE
def test_parameters_are_those_of_the_model(model_type, changes):
    values = tiny(model_type, **changes)
    model = build(values)
    facts = from_config(Config("config.json", values))
    assert facts.params == sum(parameter.numel() for parameter in model.parameters())


@EACH_VARIANT
@EACH_TYPE
def test_linear_parameters_are_those_that_bitsandbytes_quantizes(model_type, changes):
    values = tiny(model_type, **changes)
    with no_tie_weights():  # as while a checkpoint is loaded
        model = build(values)
    linear = {name: module.weight.numel() for name, module in model.named_modules() if hasattr(module, "weight")}
    rows = {name: getattr(m, "out_features", getattr(m, "nf", None)) for name, m in model.named_modules()}
    replace_with_bnb_linear(
        model,
        modules_to_not_convert=get_keys_to_not_convert(model),
        quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4"),
    )
    quantized = [name for name, module in model.named_modules() if type(module).__name__ == "Linear4bit"]
    assert quantized
    facts = from_config(Config("config.json", values))
    assert facts.linear_params == sum(linear[name] for name in quantized)
    assert facts.linear_rows == sum(rows[name] for name in quantized)


@pytest.mark.parametrize("batch", [1, 3])
@EACH_TYPE
def test_kv_bytes_are_those_of_the_cache(model_type, batch):
    values = tiny(model_type)
    model = build(values)
    layers = from_config(Config("config.json", values)).layers
    for length in (1, 17, 100):
        cache = DynamicCache(config=model.config)
        ids = torch.zeros(batch, length, dtype=torch.long, device="meta")
        with torch.no_grad():
            model(input_ids=ids, cache=cache, use_cache=True, logits_to_keep=1)
            assert held_bytes(cache) == batch * peak_bytes(layers, length, 2)
            for _ in range(2):
                model(input_ids=ids[:, :1], cache=cache, use_cache=True)
        assert held_bytes(cache) == batch * steady_bytes(layers, length + 2, 2)


@pytest.mark.parametrize("model_type", ["mistral", "phi3", "starcoder2", "llama"])
def test_a_window_wider_than_the_context_limit_caps_only_beyond_it(model_type):
    values = tiny(model_type, max_position_embeddings=32, sliding_window=40)
    model = build(values)
    layers = from_config(Config("config.json", values)).layers
    for length in (20, 31, 38, 39, 45):
        cache = DynamicCache(config=model.config)
        ids = torch.zeros(1, length, dtype=torch.long, device="meta")
        with torch.no_grad():
            model(input_ids=ids, cache=cache, use_cache=True)
            model(input_ids=ids[:, :1], cache=cache, use_cache=True)
        assert held_bytes(cache) == steady_bytes(layers, length + 1, 2)


@pytest.mark.parametrize("model_type", ["qwen2", "qwen3"])
def test_windows_that_no_layer_uses_change_nothing(model_type):
    values = tiny(model_type, use_sliding_window=True, sliding_window=16, max_window_layers=3)
    types = AutoConfig.for_model(**values).layer_types
    assert set(types) == {"full_attention"}
    assert from_config(Config("config.json", values)).layers[0].spec.max_tokens is None


@EACH_TYPE
def test_defaults_are_those_of_the_config_class(model_type):
    config_class = type(AutoConfig.for_model(model_type))
    own_name = config_class.attribute_map or {}
    defaults = CLASS_DEFAULTS[model_type]
    for key, value in defaults.items():
        assert getattr(config_class, own_name.get(key, key)) == value, key
    flags = {"tie_word_embeddings", "use_sliding_window", *FLAGS} - {"use_parallel_residual"}
    for key in flags - set(defaults):
        assert not getattr(config_class, own_name.get(key, key), False), key


@EACH_TYPE
def test_a_config_that_names_only_its_type_is_sized_as_the_class_default(model_type):
    try:
        model = build({"model_type": model_type})
    except (TypeError, AssertionError):
        pytest.skip("transformers cannot build this class's default")
    if model_type == "mistral":
        pytest.skip("the default has a window")
    facts = from_config(Config("config.json", {"model_type": model_type}))
    assert facts.params == sum(parameter.numel() for parameter in model.parameters())
    assert "does not say" in facts.warnings[0]
