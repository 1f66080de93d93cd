"""What cannot be sized is refused by name; what is wrong in a config is named with file, key and value."""

import pytest
from tiny import tiny

from llmcli.errors import ModelError
from llmcli.estimate.config import Config
from llmcli.estimate.from_config import from_config


def refusal(values: dict[str, object]) -> str:
    with pytest.raises(ModelError) as caught:
        from_config(Config("dir/config.json", values))
    assert caught.value.exit_code == 3
    assert "\n" not in caught.value.message
    assert "dir/config.json" in caught.value.message
    return caught.value.message


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (tiny("llama", layer_types=["full_attention", "sliding", "full_attention"]), ["'sliding'", "layer_types"]),
        ({"model_type": "t5"}, ["t5", "encoder-decoder"]),
        ({"model_type": "whisper", "d_model": 512}, ["whisper", "encoder-decoder"]),
        ({"model_type": "any", "is_encoder_decoder": True}, ["any", "encoder-decoder"]),
        ({"model_type": "bert"}, ["encoder", "no KV cache"]),
        (tiny("llama", per_layer_config={"0": {"head_dim": 8}}), ["differ from each other", "per_layer_config"]),
        (tiny("llama", block_configs=[{"attention": {"no_op": True}}]), ["differ from each other", "block_configs"]),
        (tiny("llama", kv_sharing_modes=["store", "reuse", "reuse"]), ["share a cache", "kv_sharing_modes"]),
        (tiny("qwen3", num_kv_shared_layers=2), ["share a cache", "num_kv_shared_layers = 2"]),
        (tiny("gpt2", add_cross_attention=True), ["cross-attention", "add_cross_attention"]),
        (tiny("llama", architectures=["LlamaForSequenceClassification"]), ["LlamaForSequenceClassification"]),
        (tiny("qwen2", architectures=["Qwen2Model"]), ["Qwen2Model"]),
        ({"model_type": "wholly_new"}, ["wholly_new", "not known", "num_hidden_layers is missing"]),
        ({"architectures": ["LlamaForCausalLM"]}, ["model_type is missing"]),
        ({"model_type": None}, ["model_type is missing"]),
        ({"model_type": 7}, ["model_type = 7"]),
        ({"model_type": []}, ["model_type = []"]),
        ({}, ["model_type is missing"]),
        ({"model_type": "llava", "text_config": {"model_type": 7}}, ["text_config", "model_type = 7"]),
        ({"model_type": "any", "llm_config": {"hidden_size": 8}}, ["llm_config", "model_type is missing"]),
        ({"model_type": "llava", "text_config": {"model_type": "t5"}}, ["text_config", "t5", "encoder-decoder"]),
        ({"model_type": "llava", "vision_config": {"hidden_size": "8"}}, ["vision_config", "hidden_size = '8'"]),
        ({"model_type": "llava", "vision_config": {"image_size": [1, 2, 3]}}, ["vision_config", "image_size"]),
    ],
)
def test_refused_with_the_reason(values, words):
    message = refusal(values)
    for word in words:
        assert word in message


@pytest.mark.parametrize("value", [0, -1, 2**41, 1.5, "32", True, [32], {"a": 1}, float("nan"), 10**50])
@pytest.mark.parametrize("key", ["num_hidden_layers", "hidden_size", "num_key_value_heads", "head_dim", "vocab_size"])
def test_wrong_values_are_named(key, value):
    message = refusal(tiny("llama", **{key: value}))
    assert f"{key} = " in message
    assert len(message) < 200


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_key_value_heads": 3}, ["num_key_value_heads = 3", "4 attention heads"]),
        ({"num_attention_heads": 5, "num_key_value_heads": 5, "head_dim": None}, ["64", "5 attention heads"]),
        ({"num_hidden_layers": None}, ["num_hidden_layers is missing"]),
        ({"vocab_size": None}, ["vocab_size is missing"]),
        ({"tie_word_embeddings": "yes"}, ["tie_word_embeddings = 'yes'"]),
        ({"torch_dtype": 16}, ["torch_dtype = 16"]),
        ({"layer_types": ["full_attention"]}, ["layer_types"]),
        ({"layer_types": "full"}, ["layer_types"]),
        ({"num_hidden_layers": 2**20}, ["num_hidden_layers", "4096"]),
    ],
)
def test_what_does_not_fit_together_is_named(changes, words):
    message = refusal(tiny("llama", **changes))
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("n_layer", "num_hidden_layers"),
        ("n_embd", "hidden_size"),
        ("n_head", "num_attention_heads"),
        ("n_positions", "max_position_embeddings"),
    ],
)
def test_other_names_of_a_key_count(theirs, ours):
    values = tiny("gpt2")
    renamed = {theirs if key == ours else key: value for key, value in values.items()}
    assert from_config(Config("c", renamed)) == from_config(Config("c", values))


def test_features_that_are_switched_off_do_not_stand_in_the_way():
    off = {
        "num_experts": 0,
        "vision_config": {},
        "text_config": None,
        "sliding_window": None,
        "attention_chunk_size": None,
        "layer_types": None,
        "per_layer_config": {},
        "num_kv_shared_layers": 0,
        "add_cross_attention": False,
        "is_encoder_decoder": False,
    }
    assert from_config(Config("c", tiny("llama", **off))) == from_config(Config("c", tiny("llama")))


def test_a_null_number_of_kv_heads_means_all_heads():
    facts = from_config(Config("c", tiny("qwen2", num_key_value_heads=None)))
    assert facts.kv_heads == facts.heads == 4
