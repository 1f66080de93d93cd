"""Every mixture-of-experts type, against the model and the cache that transformers builds from its config."""

import re
from importlib import import_module

import pytest
from oracle import build, check_cache, check_parameters, facts_of
from tiny_mixture import TYPES, tiny
from transformers import AutoConfig

from llmcli.estimate.class_defaults import class_defaults
from llmcli.estimate.families.mixture import BUILDERS
from llmcli.estimate.families.registry import MODULE_OF

FLAGS = ("attention_bias", "mlp_bias", "use_bias", "qkv_bias", "use_qk_norm", "lm_head_bias", "use_qkv_bias", "is_moe")
VARIANTS = {
    "tied, all flags on": {"tie_word_embeddings": True} | dict.fromkeys(FLAGS, True),
    "all flags off, more KV heads": {"tie_word_embeddings": False, "num_key_value_heads": 4}
    | dict.fromkeys(FLAGS, False),
}
EACH_TYPE = pytest.mark.parametrize("model_type", TYPES)
WINDOWED = ("beam", "cohere2_moe", "exaone_moe", "flint", "gpt_oss", "granitemoe_swa", "kolibri1", "llama4_text")
WINDOWED += ("afmoe", "mimo_v2_flash")
AROUND_A_WINDOW = (14, 15, 40)
NOT_ON_META = {"dbrx": "cpu", "jetmoe": "cpu"}
NO_DEFAULT = {
    "dbrx": "its attention needs a rope_theta that the class does not have",
    "dots1": "it has no number of experts",
    "glm4_moe": "its hidden size is no multiple of its heads",
    "hunyuan_v1_moe": "it has no head_dim",
}
EXPERTS = re.compile(r"(?<!shared_)experts\.(?!bias|router)|(?<!shared_)mlp\.(input|output)_linear|(down|up)_embed")

SPARSE = {
    "every second layer": ("qwen3_moe", {"decoder_sparse_step": 2}),
    "some layers dense": ("qwen2_moe", {"mlp_only_layers": [0, 3]}),
    "no experts": ("qwen3_moe", {"num_experts": 0}),
    "null: the first two dense": ("flint", {"mlp_only_layers": None}),
    "none dense": ("flint", {"mlp_only_layers": []}),
    "first layers dense": ("glm4_moe", {"first_k_dense_replace": 3}),
    "all dense": ("dots1", {"first_k_dense_replace": 6}),
    "first of afmoe": ("afmoe", {"num_dense_layers": 4}),
    "a list of layers": ("llama4_text", {"moe_layers": [1, 4]}),
    "an empty list": ("llama4_text", {"moe_layers": []}),
    "interleaved": ("llama4_text", {"interleave_moe_layer_step": 2}),
    "a span": ("ernie4_5_moe", {"moe_layer_start_index": 2, "moe_layer_end_index": 4}),
    "an interval": ("ernie4_5_moe", {"moe_layer_interval": 3, "moe_num_shared_experts": 0}),
    "dense width": ("cohere2_moe", {"first_k_dense_replace": 2, "prefix_dense_intermediate_size": 72}),
    "shared": ("cohere2_moe", {"num_shared_experts": 3, "mlp_layer_types": ["dense", "sparse"] * 3}),
    **{
        f"types of {name}": (name, {"mlp_layer_types": ["sparse", "dense", "sparse", "sparse", "dense", "sparse"]})
        for name in ("beam", "exaone_moe", "hy_v3", "laguna", "mellum", "mimo_v2_flash")
    },
}
SHAPES = {
    "used per layer": ("hunyuan_v1_moe", {"moe_topk": [1, 2, 3, 4, 5, 6]}),
    "heads per layer": ("laguna", {"num_attention_heads_per_layer": [2, 4, 6, 8, 10, 12]}),
    "gate per channel": ("laguna", {"gating": "per-element"}),
    "gate per head": ("laguna", {"gating": "per-head"}),
    "no gate value": ("laguna", {"gating": False}),
    "other names": (
        "sarvam_moe",
        {"num_experts": 4, "n_routed_experts": ..., "num_shared_experts": 1, "n_shared_experts": ...},
    ),
    "no shared experts": ("granitemoeshared", {"shared_intermediate_size": 0}),
    "no mixture": ("doge", {"is_moe": False}),
    "no explicit head_dim": ("mixtral", {"head_dim": None}),
}
WINDOWS = {
    "of all layers": ("mixtral", {"sliding_window": 16}),
    "of all layers, jetmoe": ("jetmoe", {"sliding_window": 16}),
    "switched on": ("qwen3_moe", {"use_sliding_window": True, "sliding_window": 16}),
    "switched off": ("qwen3_moe", {"use_sliding_window": False, "sliding_window": 16}),
    "alternating": ("qwen2_moe", {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 4}),
    "from a layer on": ("dots1", {"sliding_window": 16, "max_window_layers": 2}),
    "two periods": (
        "cohere2_moe",
        {"first_k_dense_replace": 3, "prefix_dense_sliding_window_pattern": 2, "sliding_window_pattern": 3},
    ),
    "another period": ("afmoe", {"global_attn_every_n_layers": 3}),
    "previous tokens": ("mimo_v2_flash", {"sliding_window_size": 16, "sliding_window": 99}),
    "no chunks": ("llama4_text", {"attention_chunk_size": None}),
    "rotary layers": ("llama4_text", {"no_rope_layers": [1, 0, 1, 1, 0, 0]}),
    "another interval": ("llama4_text", {"no_rope_layer_interval": 2, "no_rope_layers": []}),
    **{
        f"types of {name}": (name, {"layer_types": ["sliding_attention", "full_attention"] * 3, "sliding_window": 16})
        for name in ("laguna", "mellum", "gpt_oss", "mimo_v2_flash", "dots1", "cohere2_moe")
    },
}


def test_every_type_of_the_module_is_proved_here():
    assert set(TYPES) == set(BUILDERS)


@pytest.mark.parametrize("module", sorted(set(MODULE_OF.values())))
def test_every_module_builds_the_types_that_are_listed_for_it_and_no_others(module):
    builders = import_module(f"llmcli.estimate.families.{module}").BUILDERS
    assert set(builders) == {name for name, listed in MODULE_OF.items() if listed == module}


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
@EACH_TYPE
def test_parameters_are_those_of_the_model(model_type, changes):
    if model_type == "dbrx" and changes.get("tie_word_embeddings"):
        changes = changes | {"tie_word_embeddings": False}  # transformers refuses a tied one
    check_parameters(tiny(model_type, **changes))


@pytest.mark.parametrize(("model_type", "changes"), SPARSE.values(), ids=SPARSE)
def test_experts_stand_in_the_layers_that_the_config_names(model_type, changes):
    check_parameters(tiny(model_type, **changes))


@pytest.mark.parametrize(("model_type", "changes"), SHAPES.values(), ids=SHAPES)
def test_a_type_of_its_own_shape(model_type, changes):
    check_parameters(tiny(model_type, **changes))
    check_cache(tiny(model_type, **changes), lengths=(17,))


@EACH_TYPE
def test_a_config_that_transformers_saves_is_sized_as_the_one_it_was_made_from(model_type):
    values = tiny(model_type)
    saved, made = facts_of(AutoConfig.for_model(**values).to_dict()), facts_of(values)
    assert (saved.layers, saved.count) == (made.layers, made.count)


@EACH_TYPE
def test_a_token_uses_its_share_of_the_experts(model_type):
    values = tiny(model_type, tie_word_embeddings=False)
    experts = sum(tensor.numel() for name, tensor in build(values).named_parameters() if EXPERTS.search(name))
    number, used = {"doge": (30, 4), "llama4_text": (6, 1)}.get(model_type, (6, 2))
    count = facts_of(values).count
    assert count.experts == experts > 0
    assert count.total - count.active == experts * (number - used) // number


@EACH_TYPE
def test_kv_bytes_are_those_of_the_cache(model_type):
    lengths = AROUND_A_WINDOW if model_type in WINDOWED else (5, 21)
    check_cache(tiny(model_type), lengths, device=NOT_ON_META.get(model_type, "meta"))


@pytest.mark.parametrize(("model_type", "changes"), WINDOWS.values(), ids=WINDOWS)
def test_layers_see_a_window_where_the_config_says_so(model_type, changes):
    device = NOT_ON_META.get(model_type, "meta")
    check_cache(tiny(model_type, **changes), lengths=(14, 40), device=device)


@pytest.mark.parametrize("model_type", [name for name in TYPES if name not in NO_DEFAULT])
def test_a_config_that_names_only_its_type_is_sized_as_the_class_default(model_type):
    facts, model = facts_of({"model_type": model_type}), build({"model_type": model_type})
    assert facts.params == sum(parameter.numel() for parameter in model.parameters())
    assert "does not say" in facts.warnings[0]


@EACH_TYPE
def test_defaults_are_those_of_the_config_class(model_type):
    config_class = type(AutoConfig.for_model(model_type))
    for key, value in class_defaults(model_type).items():
        assert getattr(config_class, key) == value, key
