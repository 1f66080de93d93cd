"""How configs of recurrent and hybrid model types are read: defaults, older spellings, and what is wrong in them."""

import pytest
from oracle import build, check_parameters, facts_of
from tiny_recurrent import TYPES, tiny
from transformers import AutoConfig

from llmcli.errors import ModelError
from llmcli.estimate.class_defaults import class_defaults
from llmcli.estimate.facts import Attention, Latent, Recurrence

EACH_TYPE = pytest.mark.parametrize("model_type", TYPES)
NO_DEFAULT = {"lfm2_moe", "nemotron_h", "qwen4_exp_text"}


def mixers(values: dict[str, object]) -> str:
    """The kind of each layer: a letter for attention, recurrence, both of them, or none."""
    letters = {frozenset(): "-", frozenset({Attention}): "a", frozenset({Latent}): "a", frozenset({Recurrence}): "r"}
    kinds = (frozenset(type(mixer) for mixer in layer.mixers) for layer in facts_of(values).layers)
    return "".join(letters.get(kind, "b") for kind in kinds)


@pytest.mark.parametrize("model_type", [name for name in TYPES if name not in NO_DEFAULT])
def test_a_config_that_names_only_its_type_is_sized_as_the_class_default(model_type):
    facts = facts_of({"model_type": model_type})
    model = build({"model_type": model_type})
    assert facts.params == sum(parameter.numel() for parameter in model.parameters())
    assert "does not say" in facts.warnings[0]


@EACH_TYPE
def test_defaults_are_those_of_the_config_class(model_type):
    config_class = type(AutoConfig.for_model(model_type))
    for key, value in class_defaults(model_type).items():
        default = getattr(config_class, key)
        assert (list(default) if isinstance(default, tuple) else default) == value, key


@pytest.mark.parametrize(
    ("model_type", "changes", "expected"),
    [
        ("qwen3_next", {"num_hidden_layers": 6}, "rrrarr"),
        ("qwen3_5_text", {"num_hidden_layers": 6, "full_attention_interval": 3}, "rrarra"),
        ("qwen3_5_text", {"num_hidden_layers": 2, "layer_types": ["full_attention", "linear_attention"]}, "ar"),
        ("qwen4_exp_text", {"num_hidden_layers": 5}, "rrrar"),
        ("qwen4_exp_text", {"num_hidden_layers": 2, "layer_types": ["full_attention", "linear_attention"]}, "ar"),
        ("olmo_hybrid", {"num_hidden_layers": 5}, "rrrar"),
        ("olmo_hybrid", {"num_hidden_layers": 3}, "rra"),
        ("lara_mini", {"num_hidden_layers": 6}, "raraar"),
        ("bamba", {"attn_layer_indices": [0, 2]}, "arar"),
        ("jamba", {"num_hidden_layers": 6}, "rarrar"),
        (
            "granitemoehybrid",
            {"layer_types": None, "layers_block_type": ["mamba", "attention", "attention", "mamba"]},
            "raar",
        ),
        ("nemotron_h", {}, "r-a-r"),
        (
            "nemotron_h",
            {"hybrid_override_pattern": None, "layers_block_type": ["mamba", "moe", "attention", "mlp"]},
            "r-a-",
        ),
        ("lfm2", {}, "raar"),
        ("lfm3", {}, "rrara"),
        ("kimi_linear", {}, "rarra"),
        ("kimi_linear", {"linear_attn_config": {}, "linear_num_heads": 2}, "rrrra"),
        ("bailing_hybrid", {}, "rrarr"),
        ("zamba", {}, "rrbrbr"),
        ("zamba2", {}, "rbrbbr"),
        ("minimax", {}, "ara"),
        ("recurrent_gemma", {}, "rrar"),
        ("recurrent_gemma", {"block_types": ["attention", "recurrent"]}, "arar"),
        ("falcon_h1", {}, "bbbb"),
        ("inkling_text", {"local_layer_ids": None, "num_hidden_layers": 6, "mlp_layer_types": None}, "bbbbbb"),
    ],
)
def test_which_layers_attend(model_type, changes, expected):
    values = tiny(model_type, **changes)
    values = {key: value for key, value in values.items() if value is not None or key not in changes}
    assert mixers(values) == expected
    check_parameters(values)


@pytest.mark.parametrize(
    ("model_type", "changes"),
    [
        ("nemotron_h", {"mamba_n_groups": 4, "mamba_d_conv": 3, "mamba_conv_bias": False}),
        ("nemotron_h", {"moe_latent_size": 32}),
        ("granitemoehybrid", {"num_local_experts": 0}),
        ("qwen3_next", {"mlp_only_layers": [1], "decoder_sparse_step": 2}),
        ("mamba", {"time_step_rank": 5}),
        ("jamba", {"mamba_dt_rank": "auto", "num_experts": 1, "num_experts_per_tok": 1}),
        ("bamba", {"mamba_d_head": "auto"}),
        ("falcon_h1", {"mamba_d_ssm": None, "mamba_d_head": 16}),
        ("lfm2", {"block_auto_adjust_ff_dim": False}),
        ("lfm2", {"block_ffn_dim_multiplier": 1.3, "block_multiple_of": 8}),
        ("lfm2", {"block_ff_dim": 120, "tie_embedding": False}),
        ("olmo_hybrid", {"linear_num_key_heads": 2, "linear_key_head_dim": 10}),
        ("zamba2", {"num_mem_blocks": 1}),
        ("zamba2", {"num_mem_blocks": 5, "use_shared_attention_adapter": True}),
        ("xlstm", {"weight_mode": "fused", "v_dim_factor": 2.0}),
        ("rwkv", {"attention_hidden_size": None}),
        ("inkling_text", {"dense_intermediate_size": 56, "sconv_kernel_size": 3}),
        ("kimi_linear", {"q_lora_rank": 20, "first_k_dense_replace": 2}),
        ("bailing_hybrid", {"q_lora_rank": 20, "mlp_layer_types": ["dense", "sparse", "dense", "dense", "dense"]}),
    ],
)
def test_other_spellings_and_shapes(model_type, changes):
    check_parameters(tiny(model_type, **changes))


@pytest.mark.parametrize(
    ("model_type", "changes", "named"),
    [
        ("nemotron_h", {"hybrid_override_pattern": "MX*"}, "hybrid_override_pattern"),
        ("nemotron_h", {"hybrid_override_pattern": ""}, "0 layers"),
        ("nemotron_h", {"hybrid_override_pattern": "M" * 100_000}, "layers"),
        ("nemotron_h", {"hybrid_override_pattern": None}, "layers_block_type"),
        ("qwen3_next", {"layer_types": ["full_attention", "sliding_attention"] * 2 + ["conv"]}, "sliding_attention"),
        ("qwen3_next", {"layer_types": ["full_attention"]}, "layer_types has 1 entries"),
        ("qwen3_next", {"full_attention_interval": 0}, "full_attention_interval = 0"),
        ("qwen3_next", {"linear_num_value_heads": None}, "linear_num_value_heads is missing"),
        ("qwen4_exp_text", {"ple_layer_ids": [1]}, "ple_layer_ids"),
        ("qwen4_exp_text", {"indexer_head_dim": None}, "indexer_head_dim is missing"),
        ("mamba", {"expand": 0}, "expand"),
        ("mamba", {"state_size": "16"}, "state_size"),
        ("mamba2", {"num_heads": 7}, "num_heads = 7"),
        ("mamba2", {"head_dim": 10}, "num_heads = 8"),
        ("mamba2", {"n_groups": -1}, "n_groups = -1"),
        ("jamba", {"attn_layer_period": 0}, "attn_layer_period"),
        ("jamba", {"num_experts_per_tok": 9}, "num_experts_per_tok = 9"),
        ("bamba", {"attn_layer_indices": "all"}, "attn_layer_indices"),
        ("lfm2_moe", {"layer_types": None}, "layer_types"),
        ("zamba", {"n_mamba_heads": 3}, "n_mamba_heads = 3"),
        ("zamba2", {"layers_block_type": None}, "layers_block_type"),
        ("kimi_linear", {"linear_attn_config": {"full_attn_layers": [1], "kda_layers": [2]}}, "full_attn_layers"),
        ("kimi_linear", {"linear_attn_config": 3}, "linear_attn_config"),
        ("recurrent_gemma", {"block_types": []}, "block_types"),
        ("recurrent_gemma", {"block_types": ["mamba"]}, "block_types"),
        ("recurrent_gemma", {"num_attention_heads": 5}, "attention heads"),
        ("xlstm", {"qk_dim_factor": None}, "qk_dim_factor is missing"),
        ("xlstm", {"num_blocks": 2**40}, "num_blocks"),
        ("inkling_text", {"swa_num_key_value_heads": 4}, "swa_num_key_value_heads = 4"),
        ("zaya", {"sliding_window": None}, "sliding_window is missing"),
        ("minimax", {"num_key_value_heads": 3}, "num_key_value_heads = 3"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(model_type, changes, named):
    values = tiny(model_type, **changes)
    for key in ("layer_types", "layers_block_type"):
        if values.get(key, ...) is None:
            del values[key]
    with pytest.raises(ModelError) as caught:
        facts_of(values)
    assert named in caught.value.message
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300
