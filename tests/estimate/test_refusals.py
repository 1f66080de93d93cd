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
        (tiny("mistral", sliding_window=64), ["sliding-window", "64"]),
        ({"model_type": "mistral", "max_position_embeddings": 32768}, ["sliding-window", "4096"]),
        (tiny("qwen2", use_sliding_window=True, sliding_window=64, max_window_layers=1), ["sliding-window"]),
        (tiny("llama", layer_types=["full_attention", "sliding_attention", "full_attention"]), ["sliding_attention"]),
        (tiny("llama", attention_chunk_size=64), ["chunked"]),
        ({"model_type": "gemma2", "sliding_window": 4096}, ["gemma2", "sliding-window"]),
        ({"model_type": "deepseek_v3", "kv_lora_rank": 512, "n_routed_experts": 256}, ["MLA", "kv_lora_rank = 512"]),
        ({"model_type": "mamba", "state_size": 16}, ["mamba", "recurrent"]),
        ({"model_type": "jamba", "mamba_d_state": 16, "num_experts": 16}, ["jamba", "recurrent"]),
        ({"model_type": "rwkv"}, ["recurrent"]),
        ({"model_type": "qwen3_next", "linear_num_value_heads": 32}, ["linear-attention"]),
        ({"model_type": "mixtral", "num_local_experts": 8}, ["MoE", "num_local_experts = 8"]),
        ({"model_type": "t5", "is_encoder_decoder": True}, ["t5", "encoder-decoder"]),
        ({"model_type": "bert"}, ["encoder", "no KV cache"]),
        ({"model_type": "qwen3_vl", "vision_config": {"depth": 27}, "text_config": {"a": 1}}, ["vision_config"]),
        ({"model_type": "gemma3n", "num_kv_shared_layers": 15}, ["share"]),
        (tiny("llama", per_layer_config={"0": {"head_dim": 8}}), ["differ from each other"]),
        (tiny("gpt2", add_cross_attention=True), ["cross-attention"]),
        (tiny("llama", architectures=["LlamaForSequenceClassification"]), ["LlamaForSequenceClassification"]),
        (tiny("qwen2", architectures=["Qwen2Model"]), ["Qwen2Model"]),
        ({"model_type": "wholly_new"}, ["wholly_new", "not known"]),
        ({"architectures": ["LlamaForCausalLM"]}, ["model_type is missing"]),
        ({"model_type": None}, ["model_type is missing"]),
        ({"model_type": 7}, ["model_type = 7"]),
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
        ({"num_hidden_layers": 2**20}, ["num_hidden_layers"]),
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
        "sliding_window": None,
        "attention_chunk_size": None,
        "layer_types": None,
    }
    assert from_config(Config("c", tiny("llama", **off))) == from_config(Config("c", tiny("llama")))


def test_a_null_number_of_kv_heads_means_all_heads():
    facts = from_config(Config("c", tiny("qwen2", num_key_value_heads=None)))
    assert facts.kv_heads == facts.heads == 4
