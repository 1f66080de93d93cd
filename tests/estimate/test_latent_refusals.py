"""Configs of models with latent attention that cannot be: one line that names the key and what is allowed."""

import pytest
from oracle import facts_of
from tiny_latent import DEEPSEEK_V4, DOTS3, LONGCAT, MINIMAX_M3, tiny_latent, without

from llmcli.errors import ModelError

WRONG = {
    "no rank": (tiny_latent("deepseek_v3", kv_lora_rank=None), "kv_lora_rank is missing"),
    "a rank of none": (tiny_latent("deepseek_v3", kv_lora_rank=0), "kv_lora_rank = 0"),
    "an absurd rank": (tiny_latent("deepseek_v3", kv_lora_rank=2**50), "kv_lora_rank"),
    "no query for the indexer": (tiny_latent("deepseek_v32", q_lora_rank=None), "q_lora_rank is missing"),
    "no experts per token": (without(tiny_latent("deepseek_v2"), "num_experts_per_tok"), "num_experts_per_tok"),
    "more experts per token than there are": (
        tiny_latent("deepseek_v3", num_experts_per_tok=9),
        "9 is not from 1 to 8",
    ),
    "another layer type": (tiny_latent("deepseek_v32", layer_types=["full_attention"] * 4), "'full_attention'"),
    "another MLP type": (tiny_latent("glm4_moe_lite", mlp_layer_types=["dense"] * 3 + ["moe"]), "'moe'"),
    "another indexer type": (tiny_latent("hy_v4", indexer_types=["full", "half"] * 2), "'half'"),
    "no indexer to share": (tiny_latent("glm_moe_dsa", indexer_types=["shared"] * 4), "starts with 'shared'"),
    "an unknown letter": (tiny_latent("glm_moe_dsa", index_topk_pattern="FXSF"), "'X'"),
    "too few letters": (tiny_latent("glm_moe_dsa", index_topk_pattern="FS"), "2 letters where the model has 4"),
    "too few indexer types": (tiny_latent("glm_moe_dsa", indexer_types=["full"]), "1 entries"),
    "a frequency that is no number": (tiny_latent("axk1", moe_layer_freq="2"), "moe_layer_freq = '2'"),
    "too many layers": (tiny_latent("deepseek_v3", num_hidden_layers=2**40), "num_hidden_layers"),
    "LongCat without a width": (LONGCAT | {"expert_ffn_hidden_size": None}, "expert_ffn_hidden_size is missing"),
    "dots3: another type": (DOTS3 | {"layer_types": ["chunked_attention"] * 4}, "'chunked_attention'"),
    "dots3: a layer beyond": (DOTS3 | {"per_layer_config": {"4": {}}}, "'4', which is the number of none"),
    "dots3: no number": (DOTS3 | {"per_layer_config": {"x": {}}}, "'x'"),
    "dots3: no object": (DOTS3 | {"per_layer_config": {"1": 3}}, "1 = 3 is no object"),
    "MiniMax-M3: another type": (MINIMAX_M3 | {"layer_types": ["sliding_attention"] * 3}, "'sliding_attention'"),
    "MiniMax-M3: too short a list": (
        without(MINIMAX_M3, "layer_types") | {"sparse_attention_config": {"sparse_attention_freq": [1]}},
        "sparse_attention_freq has 1 entries",
    ),
    "DeepSeek-V4: another ratio": (without(DEEPSEEK_V4, "layer_types") | {"compress_ratios": [8] * 5}, "[8, 8"),
    "DeepSeek-V4: too few": (without(DEEPSEEK_V4, "layer_types") | {"compress_ratios": [4]}, "1 layer types for 5"),
    "DeepSeek-V4: another type": (DEEPSEEK_V4 | {"layer_types": ["full_attention"] * 5}, "'full_attention'"),
    "DeepSeek-V4: a rate of none": (
        DEEPSEEK_V4 | {"compress_rates": {"compressed_sparse_attention": 0}},
        "compressed_sparse_attention = 0",
    ),
    "DeepSeek-V4: a group of none": (DEEPSEEK_V4 | {"o_groups": None}, "o_groups is missing"),
}


@pytest.mark.parametrize(("values", "said"), WRONG.values(), ids=WRONG)
def test_the_key_and_what_is_wrong_are_named(values, said):
    with pytest.raises(ModelError) as caught:
        facts_of(values)
    assert said in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint
