"""Every model type with latent attention or an indexer, against the model and the cache that transformers builds."""

import pytest
from oracle import build, check_cache, check_parameters, facts_of, storage_of
from tiny_latent import (
    DEEPSEEK_V4,
    DOTS3,
    INDEXED,
    LONGCAT,
    MINIMAX_M3,
    PLAIN,
    tiny_latent,
    without,
)
from transformers import AutoConfig, AutoModelForCausalLM, Mistral4Config, Mistral4ForCausalLM

from llmcli.estimate.layers import peak_bytes, steady_bytes

# transformers lists it with the models for images, beside which it stands, and not with the language models
AutoModelForCausalLM.register(Mistral4Config, Mistral4ForCausalLM, exist_ok=True)

OF_THEIR_OWN = {config["model_type"]: config for config in (DEEPSEEK_V4, DOTS3, LONGCAT, MINIMAX_M3)}
ALL = {model_type: tiny_latent(model_type) for model_type in (*PLAIN, *INDEXED)} | OF_THEIR_OWN
VARIANTS = {
    "tied": {"tie_word_embeddings": True},
    "biases": {"tie_word_embeddings": False, "attention_bias": True, "mlp_bias": True},
}


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("model_type", ALL)
def test_parameters_are_those_of_the_model(model_type, changes):
    check_parameters(ALL[model_type] | changes)


@pytest.mark.parametrize("model_type", [*PLAIN, *INDEXED, "minimax_m3_vl_text"])
def test_kv_bytes_are_those_of_the_cache(model_type):
    check_cache(ALL[model_type], lengths=(1, 60))


def test_longcat_has_two_caches_per_layer():
    check_cache(LONGCAT, lengths=(1, 20), device="cpu")  # its experts look for tokens that only a real tensor has


def test_sliding_layers_of_dots3_have_their_own_rows_and_indexed_ones_float32_keys():
    check_cache(DOTS3, lengths=(1, 14, 15, 40))


def test_a_window_for_all_layers_holds_for_latent_rows():
    check_cache(tiny_latent("deepseek_v3", sliding_window=16), lengths=(5, 14, 15, 40))


def test_deepseek_v4_around_its_window_and_its_compressed_rows():
    one_of_each = DEEPSEEK_V4 | {"num_hidden_layers": 3, "layer_types": DEEPSEEK_V4["layer_types"][:3]}
    check_cache(one_of_each, lengths=(1, 3, 4, 14, 15, 30, 31, 33, 63))


def test_deepseek_v4_flash_is_as_large_as_it_was_measured():
    types = ["sliding_attention"] * 2 + ["compressed_sparse_attention", "heavily_compressed_attention"] * 21
    layers = storage_of({"model_type": "deepseek_v4", "layer_types": types[:43]})
    assert steady_bytes(layers, 9000) == 69_726_720


def test_deepseek_v4_gives_up_waiting_tokens_for_a_row_and_never_more_than_it_had_at_the_end_of_prefill():
    layers = storage_of(DEEPSEEK_V4)
    assert steady_bytes(layers, 63) > steady_bytes(layers, 64)
    peaks = [peak_bytes(layers, length) for length in range(1, 130)]
    assert peaks == sorted(peaks)
    assert all(steady_bytes(layers, length) <= peaks[length - 1] for length in range(1, 130))


SCHEDULES = {
    "GLM: a list": tiny_latent("glm_moe_dsa", indexer_types=["full", "shared", "full", "shared"]),
    "GLM: letters": tiny_latent("glm_moe_dsa", index_topk_pattern="FSSF"),
    "GLM: a frequency": tiny_latent("glm_moe_dsa", num_hidden_layers=9, index_topk_freq=3),
    "GLM: an offset": tiny_latent("glm_moe_dsa", num_hidden_layers=9, index_topk_freq=3, index_skip_topk_offset=3),
    "HY-V4: a list": tiny_latent("hy_v4", indexer_types=["full", "full", "shared", "full"]),
    "HY-V4: its own": tiny_latent("hy_v4", num_hidden_layers=7),
}


@pytest.mark.parametrize("values", SCHEDULES.values(), ids=SCHEDULES)
def test_only_layers_with_an_indexer_keep_its_keys(values):
    check_parameters(values)
    check_cache(values, lengths=(12,))


SHAPES = {
    "all layers sparse": tiny_latent("deepseek_v3", first_k_dense_replace=0),
    "all layers dense": tiny_latent("deepseek_v2", first_k_dense_replace=4),
    "typed MLPs": tiny_latent("glm4_moe_lite", mlp_layer_types=["dense", "dense", "sparse", "sparse"]),
    "typed MLPs of an indexed model": tiny_latent("deepseek_v32", mlp_layer_types=["sparse", "dense"] * 2),
    "every second layer sparse": tiny_latent("axk1", first_k_dense_replace=2, moe_layer_freq=2),
    "every third layer sparse": tiny_latent("axk2", num_hidden_layers=7, moe_layer_freq=3),
    "values as wide as a head": without(tiny_latent("minicpm3"), "v_head_dim"),
    "Sarvam's names": without(tiny_latent("sarvam_mla"), "n_routed_experts", "n_shared_experts")
    | {"num_experts": 6, "num_shared_experts": 3},
    "MiniMax-M3: the older section": without(MINIMAX_M3, "layer_types", "mlp_layer_types", "index_n_heads")
    | {
        "moe_layer_freq": [0, 1, 1],
        "sparse_attention_config": {
            "sparse_attention_freq": [0, 0, 1],
            "sparse_num_index_heads": 2,
            "sparse_index_dim": 12,
        },
    },
    "MiniMax-M3: no list": without(MINIMAX_M3, "layer_types", "mlp_layer_types"),
    "dots3: full layers": without(DOTS3, "n_shared_experts") | {"use_dsa": False, "use_sliding_window": False},
    "dots3: older names": without(DOTS3, "sliding_window", "shared_experts_intermediate_size")
    | {
        "sliding_window_size": 9,
        "moe_shared_expert_intermediate_size": 12,
        "moe_layer_freq": [0, 0, 1, 1],
        "layer_types": ["full_attention", "sliding_attention"] * 2,
    },
    "DeepSeek-V4: ratios": without(DEEPSEEK_V4, "layer_types", "compress_rates")
    | {"compress_ratios": [0, 128, 4, 4, 0, 0], "compress_rate_csa": 8, "compress_rate_hca": 16},
    "DeepSeek-V4: its own": without(DEEPSEEK_V4, "layer_types"),
}


@pytest.mark.parametrize("values", SHAPES.values(), ids=SHAPES)
def test_what_a_config_says_of_its_layers(values):
    check_parameters(values)
    check_cache(values, lengths=(12, 30))


@pytest.mark.parametrize("model_type", ["deepseek_v2", "deepseek_v3", "glm4_moe_lite", "minicpm3", "youtu"])
def test_queries_that_are_not_compressed(model_type):
    check_parameters(tiny_latent(model_type, q_lora_rank=None))


def test_a_config_that_transformers_has_saved_is_sized_as_the_one_it_was_made_of():
    for values in ALL.values():
        saved = AutoConfig.for_model(**values).to_dict()
        facts = facts_of(saved)
        assert (facts.layers, facts.count) == (facts_of(values).layers, facts_of(values).count), values["model_type"]


@pytest.mark.parametrize("model_type", sorted({*ALL} - {"deepseek_v2"}))
def test_a_config_that_names_only_its_type_is_sized_as_the_class_default(model_type):
    model = build({"model_type": model_type})
    facts = facts_of({"model_type": model_type})
    assert facts.params == sum(parameter.numel() for parameter in model.parameters())
    assert "does not say" in facts.warnings[0]


def test_kimi_k2_is_deepseek_v3_under_another_name():
    values = tiny_latent("deepseek_v3", first_k_dense_replace=1)
    kimi, deepseek = facts_of(values | {"model_type": "kimi_k2"}), facts_of(values)
    assert (kimi.layers, kimi.count) == (deepseek.layers, deepseek.count)


def test_a_row_expands_to_keys_and_values_of_all_heads():
    (mixer,) = facts_of({"model_type": "deepseek_v3"}).layers[0].mixers
    assert 2 * mixer.expanded == 80 * 1024  # DeepSeek-V3: 80 KiB per token in bfloat16


def test_the_width_is_that_of_what_a_token_passes_through():
    assert facts_of(tiny_latent("youtu")).intermediate == 96
    assert facts_of(tiny_latent("deepseek_v3", first_k_dense_replace=0)).intermediate == (2 + 2) * 24
    assert facts_of(DEEPSEEK_V4).intermediate == (2 + 1) * 24
