"""Multimodal configs: the language model inside, its cache, and the towers beside it, against transformers' models."""

from collections.abc import Mapping

import pytest
import torch
from oracle import check_held, held_bytes
from transformers import CONFIG_MAPPING, AutoModelForMultimodalLM, BitsAndBytesConfig, DynamicCache, PreTrainedModel
from transformers.initialization import no_tie_weights
from transformers.integrations.bitsandbytes import replace_with_bnb_linear
from transformers.quantizers.base import get_keys_to_not_convert

from llmcli.engine.int4 import Int4Linear, hollow_int4, int4_modules
from llmcli.errors import ModelError
from llmcli.estimate.architecture import Architecture
from llmcli.estimate.class_defaults import configs_inside
from llmcli.estimate.config import Config
from llmcli.estimate.dtypes import FLOATS
from llmcli.estimate.engines.transformers import TRANSFORMERS
from llmcli.estimate.families.registry import MULTIMODAL, builder_of
from llmcli.estimate.from_config import from_config
from llmcli.estimate.layers import steady_bytes
from llmcli.estimate.towers.beside import JOINTS

TEXT = {
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
}
WINDOW = {"sliding_window": 16}
MROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}}
MROPE_HALF = {"rope_parameters": MROPE["rope_parameters"] | {"partial_rotary_factor": 0.5, "mrope_section": [1, 1, 2]}}
OWN_TEXT: Mapping[str, dict[str, object]] = {
    "qwen2_vl": MROPE,
    "qwen2_5_vl": MROPE,
    "glm4v": MROPE,
    "glm46v": MROPE,
    "glm4v_moe": MROPE_HALF | {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
    **dict.fromkeys(["aya_vision", "cohere2_vision", "gemma3", "gemma4", "mistral3", "shieldgemma2"], WINDOW),
    "llama4": {"intermediate_size_mlp": 80, "num_local_experts": 4, "attention_chunk_size": 16},
    "mllama": {"cross_attention_layers": [1, 3]},
    "qwen3_vl_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": 24},
    "qwen3_vl": {"head_dim": 24},
}
TOWER = {"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4}
QWEN_TOWER = {"depth": 2, "hidden_size": 32, "num_heads": 4, "out_hidden_size": 64, "intermediate_size": 48}
OWN_TOWER: Mapping[str, dict[str, object]] = {
    "qwen2_vl": {"depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 4},
    "qwen2_audio": {"encoder_layers": 2, "d_model": 32, "encoder_ffn_dim": 48, "encoder_attention_heads": 4},
    "gemma4": TOWER | {"num_key_value_heads": 2, "head_dim": 8},
    "llama4": TOWER | {"vision_output_dim": 32, "projector_input_dim": 32, "projector_output_dim": 32},
    "mllama": {"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 48, "attention_heads": 4},
    **dict.fromkeys(["qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"], QWEN_TOWER),
    **dict.fromkeys(["glm4v", "glm46v", "glm4v_moe"], QWEN_TOWER),
}
KNOWN = sorted(JOINTS)
EACH_TYPE = pytest.mark.parametrize("model_type", KNOWN)


def text_type(model_type: str) -> str:
    return configs_inside(model_type)["text_config"].model_type


def multimodal(model_type: str, text: Mapping[str, object] = {}, **more: object) -> dict[str, object]:
    """Four layers of 64 channels and a tower of two; skipped where the language model is not known yet."""
    if builder_of(text_type(model_type)) is None:
        pytest.skip(f"{text_type(model_type)} is not known")
    tower = "audio_config" if "vision_config" not in configs_inside(model_type) else "vision_config"
    tower_type = configs_inside(model_type)[tower].model_type
    return {
        "model_type": model_type,
        "text_config": {"model_type": text_type(model_type), **TEXT, **OWN_TEXT.get(model_type, {}), **text},
        tower: {"model_type": tower_type, **OWN_TOWER.get(model_type, TOWER)},
        **more,
    }


def built(values: Mapping[str, object]) -> PreTrainedModel:
    config = CONFIG_MAPPING[values["model_type"]](**{key: one for key, one in values.items() if key != "model_type"})
    with torch.device("meta"):
        return AutoModelForMultimodalLM.from_config(config, dtype=torch.bfloat16).eval()


def facts_of(values: Mapping[str, object]) -> Architecture:
    return from_config(Config("config.json", values))


def language_parameters(model: PreTrainedModel) -> int:
    parts = ("language_model", "text_model", "lm_head")
    return sum(one.numel() for name, one in model.named_parameters() if any(part in name for part in parts))


@EACH_TYPE
def test_parameters_of_language_model_and_towers(model_type):
    values = multimodal(model_type)
    facts, model = facts_of(values), built(values)
    assert facts.params == language_parameters(model)
    assert facts.params + facts.vision_params == sum(parameter.numel() for parameter in model.parameters())


@EACH_TYPE
def test_towers_that_the_config_leaves_to_the_class(model_type):
    values = multimodal(model_type)
    bare = {key: one for key, one in values.items() if key not in ("vision_config", "audio_config")}
    try:
        model = built(bare)
    except ValueError:
        pytest.skip("transformers cannot build this class's default")
    facts = facts_of(bare)
    assert facts.params + facts.vision_params == sum(parameter.numel() for parameter in model.parameters())


@EACH_TYPE
def test_what_bitsandbytes_quantizes(model_type):
    values = multimodal(model_type)
    with no_tie_weights():
        model = built(values)
    sizes = {name: module.weight.numel() for name, module in model.named_modules() if hasattr(module, "weight")}
    replace_with_bnb_linear(
        model,
        modules_to_not_convert=get_keys_to_not_convert(model),
        quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4"),
    )
    packed = [name for name, module in model.named_modules() if type(module).__name__ == "Linear4bit"]
    facts = facts_of(values)
    assert facts.linear_params + facts.vision.linear == sum(sizes[name] for name in packed)


@EACH_TYPE
def test_what_int4_takes(model_type):
    values = multimodal(model_type)
    model = built(values)
    hollow_int4(model)
    packed = [module for module in int4_modules(model) if isinstance(module, Int4Linear)]
    facts = facts_of(values)
    assert facts.count.even + facts.vision.even == sum(module.out_features * module.in_features for module in packed)


@EACH_TYPE
def test_the_cache_is_that_of_the_language_model(model_type):
    values = multimodal(model_type)
    model, layers = built(values), TRANSFORMERS.storage(facts_of(values), FLOATS["bfloat16"], "bfloat16")
    if model_type == "llama4":
        model = model.language_model  # the class around it asks for an output that this one does not have
    check_held(model, layers, lengths=(1, 14, 15, 17))


@pytest.mark.parametrize(("outside", "inside"), [(None, None), (None, True), (True, False), (False, True)])
@EACH_TYPE
def test_which_config_ties_head_and_embedding(model_type, outside, inside):
    text = {} if inside is None else {"tie_word_embeddings": inside}
    values = multimodal(model_type, text) | ({} if outside is None else {"tie_word_embeddings": outside})
    try:
        model = built(values)
    except AttributeError:
        pytest.skip("transformers asks for a key that its class does not have")
    assert facts_of(values).params == language_parameters(model)


@pytest.mark.parametrize("model_type", ["qwen2_vl", "qwen2_5_vl", "paddleocr_vl"])
def test_keys_of_the_language_model_at_the_top_level(model_type):
    flat = {key: one for key, one in TEXT.items() if key != "pad_token_id"}
    values = {"model_type": model_type, **flat, "hidden_size": 64}
    facts = facts_of(values)
    assert facts.params == language_parameters(built(values))
    assert facts.layer_count == 4


@pytest.mark.parametrize("key", ["llm_config", "language_config", "text_config"])
def test_a_multimodal_type_that_is_not_known(key):
    language = {"model_type": "llama", **TEXT}
    facts = facts_of({"model_type": "internvl_chat", key: language, "vision_config": {"hidden_size": 3}})
    alone = facts_of(language)
    assert (facts.layers, facts.params) == (alone.layers, alone.params)
    assert (facts.model_type, facts.decoder_type) == ("internvl_chat", "llama")
    assert facts.vision_params is None
    assert "internvl_chat" in facts.warnings[-1]


def test_a_language_model_two_configs_deep():
    language = {"model_type": "qwen2_5_omni_text", **TEXT}
    facts = facts_of({"model_type": "qwen2_5_omni", "thinker_config": {"text_config": language}})
    assert (facts.decoder_type, facts.layer_count, facts.positions) == ("qwen2_5_omni_text", 4, 256)


@pytest.mark.parametrize(
    ("outer", "inner", "dtype"),
    [
        ({"torch_dtype": "bfloat16"}, {}, "bfloat16"),
        ({}, {"dtype": "float16"}, "float16"),
        ({"dtype": "bfloat16"}, {"torch_dtype": "float32"}, "bfloat16"),
        ({}, {}, None),
    ],
)
def test_the_dtype_of_the_whole_config_counts_first(outer, inner, dtype):
    assert facts_of(multimodal("llava", inner, **outer)).dtype == dtype


def test_a_quantized_language_model():
    values = multimodal("llava", {"quantization_config": {"quant_method": "compressed-tensors"}})
    assert facts_of(values).quantization == "compressed-tensors"


def test_a_head_that_transformers_ties_and_the_language_model_does_not_is_named():
    (warning,) = facts_of(multimodal("mistral3")).warnings
    assert "tie_word_embeddings" in warning
    assert str(64 * 128) in warning
    assert facts_of(multimodal("mistral3", tie_word_embeddings=False)).warnings == ()


def test_mllama_is_sized_without_an_image_and_says_what_one_adds():
    facts = facts_of(multimodal("mllama"))
    assert [layer.mixers[0].__class__.__name__ for layer in facts.layers] == ["Attention", "CrossAttention"] * 2
    added = 2 * 6404 * 2 * 2 * 16 * 2  # layers × rows × keys and values × KV heads × head_dim × 2 bytes
    assert any(f"{added} bytes" in warning and "without an image" in warning for warning in facts.warnings)


def test_what_an_image_adds_to_mllama_is_what_transformers_keeps():
    values = multimodal("mllama")
    model, batch, patches = built(values), 1, 6404
    states = torch.zeros(batch, patches, 64, dtype=torch.bfloat16, device="meta")
    cache, ids = DynamicCache(config=model.config), torch.zeros(batch, 5, dtype=torch.long, device="meta")
    mask = torch.zeros(batch, 1, 5, patches, dtype=torch.bfloat16, device="meta")
    rows = torch.ones(batch, 1, 5, 1, dtype=torch.bfloat16, device="meta")
    with torch.no_grad():
        model.model.language_model(
            input_ids=ids,
            cross_attention_states=states,
            cross_attention_mask=mask,
            full_text_row_masked_out_mask=rows,
            cache=cache,
            use_cache=True,
        )
    without = steady_bytes(TRANSFORMERS.storage(facts_of(values), FLOATS["bfloat16"], "bfloat16"), 5)
    assert f"{held_bytes(cache) - without} bytes" in " ".join(facts_of(values).warnings)


@pytest.mark.parametrize("section", [[], [1], 7, "text"])
def test_a_nested_config_that_is_no_object(section):
    with pytest.raises(ModelError) as caught:
        facts_of({"model_type": "gemma3", "text_config": section, "hidden_size": 8})
    assert "text_config = " in caught.value.message


def test_every_multimodal_type_is_one_that_holds_a_language_model():
    for model_type in MULTIMODAL:
        assert {"text_config", "thinker_config"} & set(configs_inside(model_type)), model_type
