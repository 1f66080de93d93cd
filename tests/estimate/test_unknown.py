"""Model types that are not known: an upper bound that says so, or one line with what stands in the way."""

import pytest
from oracle import facts_of
from tiny import tiny

from llmcli.errors import ModelError
from llmcli.estimate.dtypes import FLOATS
from llmcli.estimate.engines.transformers import TRANSFORMERS
from llmcli.estimate.facts import Attention
from llmcli.estimate.families.dense import STYLES
from llmcli.estimate.layers import peak_bytes, steady_bytes

ORDINARY = tiny("llama") | {"model_type": "wholly_new"}


def refusal(values: dict[str, object]) -> str:
    with pytest.raises(ModelError) as caught:
        facts_of(values)
    assert "\n" not in caught.value.message
    return caught.value.message


def held(values: dict[str, object], tokens: int) -> int:
    return steady_bytes(TRANSFORMERS.storage(facts_of(values), FLOATS["bfloat16"], "bfloat16"), tokens)


def test_ordinary_attention_is_an_upper_bound_and_says_so():
    facts = facts_of(ORDINARY)
    (reason,) = facts.inexact
    assert "upper bound" in reason
    assert "wholly_new" in reason
    assert {layer.mixers for layer in facts.layers} == {(Attention(2, 24, 24),)}


@pytest.mark.parametrize("model_type", sorted(STYLES))
def test_the_bound_is_not_below_a_type_that_is_known(model_type):
    known = tiny(model_type)
    unknown = known | {"model_type": "wholly_new", "intermediate_size": known.get("intermediate_size", 256)}
    for tokens in (1, 100):
        assert held(unknown, tokens) >= held(known, tokens)


def test_windows_do_not_shrink_the_bound():
    windows = ORDINARY | {"sliding_window": 16, "layer_types": ["sliding_attention"] * 3}
    assert held(windows, 100) == held(ORDINARY, 100)


@pytest.mark.parametrize(
    ("changes", "attention"),
    [
        ({"num_key_value_heads": None}, Attention(4, 24, 24)),
        ({"num_key_value_heads": None, "multi_query_group_num": 1}, Attention(1, 24, 24)),
        ({"head_dim": None, "kv_channels": 40}, Attention(2, 40, 40)),
        ({"head_dim": None}, Attention(2, 16, 16)),
        ({"v_head_dim": 8}, Attention(2, 24, 8)),
        ({"global_head_dim": 48, "num_global_key_value_heads": 4}, Attention(4, 48, 48)),
    ],
)
def test_the_largest_of_what_the_config_gives(changes, attention):
    assert facts_of(ORDINARY | changes).layers[0].mixers == (attention,)


def test_experts_by_their_usual_keys():
    dense = facts_of(ORDINARY)
    facts = facts_of(ORDINARY | {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32})
    experts = 3 * 8 * (3 * 64 * 32)
    assert facts.params == dense.params - 3 * (3 * 64 * 96) + experts + 3 * 8 * 64
    assert facts.active_params == facts.params - experts * 6 // 8
    assert facts.intermediate == 2 * 32


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mamba_d_state": 16}, ["recurrent", "mamba_d_state = 16"]),
        ({"linear_num_value_heads": 32}, ["recurrent", "linear_num_value_heads"]),
        ({"layer_types": ["linear_attention"] * 3}, ["recurrent", "layer_types"]),
        ({"kv_lora_rank": 64, "qk_rope_head_dim": 8}, ["MLA", "qk_nope_head_dim"]),
        ({"vocab_size": None}, ["vocab_size is missing"]),
        ({"num_attention_heads": None}, ["num_attention_heads is missing"]),
        ({"num_key_value_heads": [1, 2, 2]}, ["num_key_value_heads = [1, 2, 2]"]),
    ],
)
def test_what_stands_in_the_way_is_named(changes, words):
    message = refusal(ORDINARY | changes)
    for word in words:
        assert word in message


LATENT = {"kv_lora_rank": 20, "qk_rope_head_dim": 8, "qk_nope_head_dim": 12, "v_head_dim": 10}
EXPERTS = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "first_k_dense_replace": 1}
INDEXER = {"index_n_heads": 2, "index_head_dim": 16, "layer_types": ["indexed_attention", "other"] * 2}


@pytest.mark.parametrize(("changes", "row"), [({"layer_types": ["mla"] * 4}, 28), (INDEXER, 28 + 16)])
def test_latent_attention_is_a_row_per_token_and_layer(changes, row):
    values = ORDINARY | LATENT | EXPERTS | {"num_hidden_layers": 4, "sliding_window": 16} | changes
    assert held(values, 100) == 100 * 4 * row * 2
    assert "wholly_new" in facts_of(values).inexact[0]


def test_an_unknown_language_model_in_a_multimodal_config():
    facts = facts_of({"model_type": "new_vl", "text_config": ORDINARY})
    assert "wholly_new" in facts.inexact[0]
    assert facts.vision_params is None


def test_the_peak_of_a_prefill_is_the_whole_prompt():
    layers = TRANSFORMERS.storage(facts_of(ORDINARY), FLOATS["bfloat16"], "bfloat16")
    assert peak_bytes(layers, 100) == steady_bytes(layers, 100) == 100 * 3 * 2 * 2 * 24 * 2
