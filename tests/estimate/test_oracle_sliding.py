"""Dense model types whose layers differ, against the model and the cache that transformers builds."""

import pytest
from oracle import check_cache, check_parameters, facts_of
from tiny import TYPES, tiny

from llmcli.errors import ModelError
from llmcli.estimate.facts import Attention
from llmcli.estimate.families.registry import MODULE_OF

WINDOW = 16  # of every tiny config here
AROUND = (1, WINDOW - 3, WINDOW - 2, WINDOW - 1, WINDOW, WINDOW + 1, 40)
NEAR = (WINDOW - 2, WINDOW - 1, 40)
SLIDING = [name for name in TYPES if MODULE_OF[name] in ("sliding", "gemma", "loops")]
WITH_PATTERN_KEY = ("cohere2", "exaone4", "gemma3_text")


def windows(values: dict[str, object]) -> list[int | None]:
    """The window of every mixer, in order."""
    mixers = [mixer for layer in facts_of(values).layers for mixer in layer.mixers]
    assert all(isinstance(mixer, Attention) for mixer in mixers)
    return [mixer.window for mixer in mixers]


def check(values: dict[str, object]) -> None:
    check_parameters(values)
    check_cache(values, lengths=(5, 40))


@pytest.mark.parametrize("model_type", SLIDING)
def test_kv_bytes_are_those_of_the_cache_near_the_window(model_type):
    check_cache(tiny(model_type), lengths=NEAR)


def test_kv_bytes_at_every_length_around_the_window():
    check_cache(tiny("gemma2"), lengths=AROUND)


@pytest.mark.parametrize("model_type", [name for name in SLIDING if name != "hrm_text"])
def test_layer_types_win_over_every_pattern(model_type):
    values = tiny(model_type)
    layers = int(str(values["num_hidden_layers"]))
    types = ["full_attention", "sliding_attention", *["full_attention"] * (layers - 2)]
    listed = values | {"layer_types": types, "sliding_window": WINDOW, "num_kv_shared_layers": 0}
    check_cache(listed, lengths=(5, 40))
    assert [bool(window) for window in windows(listed)] == [name == "sliding_attention" for name in types]


@pytest.mark.parametrize("model_type", WITH_PATTERN_KEY)
def test_the_pattern_key_sets_the_period(model_type):
    check_cache(tiny(model_type, sliding_window_pattern=2), lengths=(5, 40))


@pytest.mark.parametrize("model_type", WITH_PATTERN_KEY)
def test_a_pattern_under_its_private_name_is_as_unread_as_in_transformers(model_type):
    values = tiny(model_type, _sliding_window_pattern=2)
    assert windows(values) == windows(tiny(model_type))
    check_cache(values, lengths=(40,))


@pytest.mark.parametrize("model_type", ["exaone4", "gemma2", "gemma3_text", "olmo3", "cohere2", "cwm", "granite_swa"])
def test_without_a_window_no_layer_slides(model_type):
    assert not any(windows(tiny(model_type, sliding_window=None)))


def test_gemma3_that_looks_ahead_keeps_half_a_window():
    values = tiny("gemma3_text", use_bidirectional_attention=True, sliding_window=24)
    assert set(windows(values)) == {13, None}
    check_cache(values, lengths=(5, 12, 40))


def test_gemma3_without_sizes_in_its_file_has_those_of_its_class():
    # the text_config of gemma-3-27b-it says no more than this
    values = {"model_type": "gemma3_text", "hidden_size": 5376, "intermediate_size": 21504, "num_attention_heads": 32}
    facts = facts_of(
        values | {"num_hidden_layers": 62, "num_key_value_heads": 16, "head_dim": 128, "sliding_window": 1024}
    )
    assert facts.params == 27_009_346_304
    assert "vocab_size = 262208" in facts.warnings[0]


def test_modernbert_keeps_half_of_its_local_attention():
    values = tiny("modernbert-decoder", local_attention=30, global_attn_every_n_layers=2, norm_bias=True)
    assert windows(values) == [None, 15, None, 15, None]
    check(values)
    check_parameters(tiny("modernbert-decoder", decoder_bias=False, classifier_bias=True, mlp_bias=True))


@pytest.mark.parametrize("local", [None, 1])
def test_modernbert_without_local_attention_is_refused(local):
    with pytest.raises(ModelError, match="local_attention"):
        facts_of(tiny("modernbert-decoder", local_attention=local))


GEMMA4 = {
    "global heads, values from keys": {"attention_k_eq_v": True, "num_global_key_value_heads": 1},
    "global heads that values from keys would need": {"num_global_key_value_heads": 1},
    "no inputs per layer": {"hidden_size_per_layer_input": 0},
    "shared caches, wide MLP": {"num_kv_shared_layers": 1, "use_double_wide_mlp": True},
    "all caches shared": {"num_kv_shared_layers": 8, "num_hidden_layers": 8, "hidden_size_per_layer_input": 0},
    "heads by layer": {
        "per_layer_config": {
            "05": {"head_dim": 8, "num_key_value_heads": 1},
            "7": {"head_dim": 8, "num_key_value_heads": 1},
        }
    },
    "no heads by layer": {"per_layer_config": None},
    "looks ahead": {"use_bidirectional_attention": "all", "sliding_window": 2 * WINDOW - 2},
}
EXPERTS = {"enable_moe_block": True, "num_experts": 6, "top_k_experts": 2, "moe_intermediate_size": 16}


@pytest.mark.parametrize("changes", GEMMA4.values(), ids=GEMMA4)
def test_every_gemma4(changes):
    values = tiny("gemma4_text", num_hidden_layers=8) | changes
    check_parameters(values)
    if changes.get("num_kv_shared_layers") != 8:  # a drafter, which runs only beside another model
        check_cache(values, lengths=(5, 40))


def test_gemma4_with_experts_beside_its_mlp():
    values = tiny("gemma4_text") | EXPERTS
    check_parameters(values)
    check_cache(values, lengths=(20,), device="cpu")
    facts = facts_of(values)
    assert facts.params - facts.active_params == 7 * 4 * 3 * 64 * 16
    assert facts.count.experts == 7 * 6 * 3 * 64 * 16
    assert facts.intermediate == 96 + 2 * 16


GEMMA3N = {
    "nothing shared": {"num_kv_shared_layers": 0},
    "a width per layer": {"intermediate_size": [64 + 8 * index for index in range(10)]},
    "two streams": {"altup_num_inputs": 2},
}


@pytest.mark.parametrize("changes", GEMMA3N.values(), ids=GEMMA3N)
def test_every_gemma3n(changes):
    check(tiny("gemma3n_text", **changes))


def test_layers_that_read_another_ones_cache_keep_nothing():
    facts = facts_of(tiny("gemma3n_text"))
    assert [len(layer.mixers) for layer in facts.layers] == [1] * 7 + [0] * 3


DORY = {
    "three loops": {"n_recurrent_loops": 3},
    "the last loop alone is cached": {"recurrent_kv_cache_mode": "last_loop"},
    "attention and MLP as layers": {
        "layer_types": ["sliding_attention", "mlp", "full_attention", "mlp", "sliding_attention", "mlp"],
        "num_hidden_layers": 6,
        "n_input_layers": 2,
        "n_output_layers": 2,
        "mlp_bias": True,
    },
}


@pytest.mark.parametrize("changes", DORY.values(), ids=DORY)
def test_every_dory(changes):
    check(tiny("dory", **changes))


def test_hrm_caches_every_turn_of_both_stacks():
    check(tiny("hrm_text", H_cycles=1, L_cycles=3))
    check(tiny("hrm_text", num_layers_per_stack=2, num_hidden_layers=18))


BAD = [
    ("gemma3n_text", {"num_kv_shared_layers": 10}, "num_kv_shared_layers = 10"),
    ("gemma4_text", {"num_kv_shared_layers": 2}, "num_kv_shared_layers = 2"),
    ("gemma3n_text", {"intermediate_size": [64, 64]}, "intermediate_size has 2 entries"),
    ("gemma4_text", {"per_layer_config": {"7": {"head_dim": 8}}}, "no layer from 0 to 6"),
    ("gemma4_text", {"per_layer_config": {"1": {"head_dim": None, "skip": []}}}, "per_layer_config 1"),
    ("gemma4_text", {"per_layer_config": {"1": {"head_dim": 0}}}, "head_dim = 0"),
    ("gemma4_text", {"per_layer_config": [8]}, "per_layer_config"),
    ("gemma2", {"layer_types": ["sliding_attention"] * 3, "sliding_window": None}, "sliding_window is missing"),
    ("gemma2", {"layer_types": ["full_attention"] * 4}, "layer_types has 4 entries"),
    ("dory", {"n_input_layers": 5, "n_output_layers": 2}, "not together the 6 layers"),
    ("dory", {"n_recurrent_loops": 0}, "n_recurrent_loops = 0"),
    ("hrm_text", {"H_cycles": 10**12}, "H_cycles"),
]


@pytest.mark.parametrize(("model_type", "changes", "said"), BAD)
def test_what_cannot_be_is_refused_by_name(model_type, changes, said):
    with pytest.raises(ModelError) as caught:
        facts_of(tiny(model_type, **changes))
    assert said in caught.value.message
    assert "\n" not in caught.value.message
