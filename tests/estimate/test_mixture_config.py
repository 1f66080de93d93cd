"""What a bad config of a mixture of experts is told, and what a good one says of the experts."""

import json

import pytest
from tiny_mixture import tiny

from llmcli.errors import ModelError
from llmcli.estimate.config import Config
from llmcli.estimate.experts import Experts
from llmcli.estimate.from_config import from_config

BAD = {
    "num_experts_per_tok = 9 is not from 1 to 6": ("qwen3_moe", {"num_experts_per_tok": 9}),
    "num_experts_per_tok = 0 is": ("mixtral", {"num_experts_per_tok": 0}),
    'num_local_experts = "eight" is': ("mixtral", {"num_local_experts": "eight"}),
    "num_experts is missing": ("qwen2_moe", {"num_experts": None}),
    "moe_intermediate_size is missing": ("qwen3_moe", {"moe_intermediate_size": None}),
    "decoder_sparse_step = 0 is": ("qwen3_moe", {"decoder_sparse_step": 0}),
    "mlp_only_layers = -1 is": ("qwen3_moe", {"mlp_only_layers": [-1]}),
    'mlp_only_layers = "all" is': ("flint", {"mlp_only_layers": "all"}),
    "mlp_layer_types has 2 entries where the model has 6 layers": ("hy_v3", {"mlp_layer_types": ["dense", "sparse"]}),
    "mlp_layer_types has 'moe'": ("laguna", {"mlp_layer_types": ["moe"] * 6}),
    "moe_topk = 7 is not from 1 to 6": ("hunyuan_v1_moe", {"moe_topk": [1, 1, 1, 1, 1, 7]}),
    "moe_topk has 1 entries": ("hunyuan_v1_moe", {"moe_topk": [1]}),
    "num_attention_heads_per_layer has 1 entries": ("laguna", {"num_attention_heads_per_layer": [8]}),
    "num_key_value_heads = 2 does not divide the 3 ": ("laguna", {"num_attention_heads_per_layer": [3] * 6}),
    "num_key_value_heads = 2 does not divide the 0 ": ("laguna", {"num_attention_heads_per_layer": [0] * 6}),
    "attn_config: kv_n_heads = 3 does not divide the 8 ": ("dbrx", {"attn_config": {"kv_n_heads": 3}}),
    "ffn_config: moe_top_k = 5 is not from 1 to 4": ("dbrx", {"ffn_config": {"moe_top_k": 5}}),
    "ffn_config = 7 is": ("dbrx", {"ffn_config": 7}),
    "no_rope_layers has 2 entries": ("llama4_text", {"no_rope_layers": [1, 0]}),
    "moe_layers = ": ("llama4_text", {"moe_layers": [2**80]}),
    "moe_layer_end_index = -2 is": ("ernie4_5_moe", {"moe_layer_end_index": -2}),
    "sliding_window is missing": ("gpt_oss", {"sliding_window": None, "layer_types": ["sliding_attention"] * 6}),
    "layer_types has 'conv'": ("mellum", {"layer_types": ["conv"] * 6}),
}


@pytest.mark.parametrize(("message", "model_type", "changes"), [(key, *case) for key, case in BAD.items()], ids=BAD)
def test_a_bad_config_is_named_in_one_line(message, model_type, changes):
    with pytest.raises(ModelError) as caught:
        from_config(Config("config.json", tiny(model_type, **changes)))
    assert f"config.json: {message}".replace("'", '"') in caught.value.message.replace("'", '"')
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_huge_numbers_of_experts_and_layers_are_sized():
    number = 2**40
    facts = from_config(Config("config.json", tiny("qwen3_moe", num_hidden_layers=2**12, num_experts=number)))
    assert facts.count.experts == 2**12 * number * 3 * 64 * 40


def test_the_width_is_what_a_token_passes_through():
    assert from_config(Config("config.json", tiny("qwen3_moe"))).intermediate == 2 * 40
    assert from_config(Config("config.json", tiny("qwen2_moe"))).intermediate == 2 * 40 + 56
    assert from_config(Config("config.json", tiny("qwen3_moe", mlp_only_layers=[0]))).intermediate == 96


def test_only_the_router_knows_experts_without_parameters():
    plain, more = Experts(6, 2, 40), Experts(6, 2, 40, identities=3)
    assert more.count(64).total - plain.count(64).total == 3 * 64
    assert more.count(64).experts == plain.count(64).experts


def test_experts_of_a_narrower_stream_have_projections_around_them():
    plain, narrow = Experts(6, 2, 40, gated=False), Experts(6, 2, 40, gated=False, latent=16)
    assert plain.count(64).experts == 6 * 2 * 64 * 40
    assert narrow.count(64).experts == 6 * 2 * 16 * 40
    assert narrow.count(64).linear == 2 * 64 * 16


def test_a_model_of_known_active_parameters(shared_data):
    path = next((shared_data / "configs").rglob("openai--gpt-oss-120b.json"))
    facts = from_config(Config(path.name, json.loads(path.read_text(encoding="utf-8"))))
    assert (round(facts.params / 1e9, 2), round(facts.active_params / 1e9, 2)) == (116.83, 5.71)
