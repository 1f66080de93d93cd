"""Dense model types without windows of their own, against the model and the cache that transformers builds."""

import pytest
from oracle import build, check_cache, check_parameters, facts_of, storage_of
from tiny import FLAGS, TYPES, tiny
from transformers import AutoConfig, Emu3ForCausalLM

from llmcli.errors import ModelError
from llmcli.estimate.class_defaults import class_defaults
from llmcli.estimate.families.registry import MODULE_OF
from llmcli.estimate.layers import steady_bytes

NO_META = {"biogpt"}  # its positions read a number from a tensor
DENSE = [name for name in TYPES if MODULE_OF[name] in ("dense", "gpt")]
VARIANTS = {
    "tied, all flags on": {"tie_word_embeddings": True} | dict.fromkeys(FLAGS, True),
    "untied, all flags off, no grouped heads": {"tie_word_embeddings": False, "num_key_value_heads": 4}
    | dict.fromkeys(FLAGS, False),
}
EACH_DENSE = pytest.mark.parametrize("model_type", DENSE)
EACH_TYPE = pytest.mark.parametrize("model_type", TYPES)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
@EACH_TYPE
def test_parameters_are_those_of_the_model(model_type, changes):
    check_parameters(tiny(model_type, **changes))


@EACH_DENSE
def test_kv_bytes_are_those_of_the_cache(model_type):
    check_cache(tiny(model_type), lengths=(1, 40), device="cpu" if model_type in NO_META else "meta")


@pytest.mark.parametrize("model_type", ["mistral", "ministral", "ministral3", "phi3", "starcoder2", "llama"])
def test_a_window_for_all_layers(model_type):
    check_cache(tiny(model_type, sliding_window=40), lengths=(20, 39, 90))


@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize("model_type", ["qwen2", "qwen3"])
def test_windows_from_a_layer_on(model_type, first):
    values = tiny(model_type, use_sliding_window=True, sliding_window=16, max_window_layers=first)
    check_cache(values, lengths=(5, 15, 40))


FALCONS = {
    "one KV head": {"alibi": True},
    "all heads, norms in turn": {"multi_query": False, "parallel_attn": False, "bias": True},
    "groups": {"new_decoder_architecture": True, "num_kv_heads": 2, "ffn_hidden_size": 80},
    "groups, one norm": {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1},
}


@pytest.mark.parametrize("changes", FALCONS.values(), ids=FALCONS)
def test_every_falcon(changes):
    check_parameters(tiny("falcon", **changes))
    check_cache(tiny("falcon", **changes), lengths=(1, 20))


def test_falcon_with_groups_caches_every_head_and_has_few():
    facts = facts_of(tiny("falcon", new_decoder_architecture=True, num_kv_heads=2))
    assert (facts.heads, facts.kv_heads) == (4, 2)
    assert facts_of(tiny("falcon")).kv_heads == 1


OPTS = {
    "embedding of its own width": {"word_embed_proj_dim": 32},
    "norms behind": {"do_layer_norm_before": False},
    "no final norm": {"_remove_final_layer_norm": True},
    "norms without weights, no biases": {"layer_norm_elementwise_affine": False, "enable_bias": False},
}


@pytest.mark.parametrize("changes", OPTS.values(), ids=OPTS)
def test_every_opt(changes):
    check_parameters(tiny("opt", **changes))


OTHERS = {
    "apertus": {"hidden_act": "silu"},
    "apertus1p5_text": {"output_vocab_size": 100, "tie_word_embeddings": False},
    "doge": {"is_moe": True, "num_experts": 30, "num_experts_per_tok": 4},
    "gpt_neo": {"intermediate_size": None},
    "hyperclovax": {"use_post_norm": False},
    "internlm3": {"qkv_bias": True, "bias": True},
    "gpt2": {"n_inner": 80},
}


@pytest.mark.parametrize(("model_type", "changes"), OTHERS.items(), ids=OTHERS)
def test_parameters_of_variants(model_type, changes):
    check_parameters(tiny(model_type, **changes))


def test_a_token_of_doge_uses_some_of_its_experts():
    facts = facts_of(tiny("doge", is_moe=True, num_experts=30, num_experts_per_tok=4))
    assert facts.params - facts.active_params == 3 * (30 - 4) * 2 * 64


def test_the_text_model_of_emu3():
    values = tiny("emu3_text_model", attention_bias=True, pad_token_id=0)
    model = Emu3ForCausalLM(AutoConfig.for_model(**values))
    assert facts_of(values).params == sum(parameter.numel() for parameter in model.parameters())


def test_openai_gpt_has_no_cache_and_says_so():
    values = tiny("openai-gpt")
    assert steady_bytes(storage_of(values), 40) == 0
    assert any("no KV cache" in warning for warning in facts_of(values).warnings)


def test_layers_that_differ_in_a_way_the_class_has_not_are_refused():
    with pytest.raises(ModelError, match="per_layer_config"):
        facts_of(tiny("llama", per_layer_config={"1": {"num_key_value_heads": 1}}))


@pytest.mark.parametrize("model_type", ["gpt2", "xglm"])
def test_attention_to_an_encoder_is_refused(model_type):
    with pytest.raises(ModelError, match="cross-attention"):
        facts_of(tiny(model_type, add_cross_attention=True))


@EACH_TYPE
def test_a_config_that_names_only_its_type_is_sized_as_the_class_default(model_type):
    try:
        model = build({"model_type": model_type})
    except (TypeError, AssertionError, KeyError, ValueError):
        pytest.skip("transformers cannot build this class's default")
    facts = facts_of({"model_type": model_type})
    assert facts.params == sum(parameter.numel() for parameter in model.parameters())
    assert "does not say" in facts.warnings[0]


@EACH_TYPE
def test_defaults_are_those_of_the_config_class(model_type):
    config_class = type(AutoConfig.for_model(model_type))
    for key, value in class_defaults(model_type).items():
        assert getattr(config_class, key) == value, key


@EACH_TYPE
def test_a_config_that_transformers_saves_is_sized_as_the_one_it_was_made_from(model_type):
    values = tiny(model_type)
    saved = AutoConfig.for_model(**values).to_dict()
    made, loaded = facts_of(values), facts_of(saved | {"model_type": model_type})
    assert (loaded.layers, loaded.count) == (made.layers, made.count)
