"""Old names and keys, and models whose code is in their own repository, against what is published of them."""

import json

import pytest
from oracle import facts_of
from tiny import tiny

from llmcli.errors import ModelError
from llmcli.estimate.config import Config
from llmcli.estimate.facts import Attention
from llmcli.estimate.families.legacy import REMOTE, RENAMED
from llmcli.estimate.families.registry import builder_of
from llmcli.estimate.from_config import from_config

GLM = {
    "model_type": "chatglm",
    "num_layers": 40,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "multi_query_attention": True,
    "multi_query_group_num": 2,
    "kv_channels": 128,
    "ffn_hidden_size": 13696,
    "padded_vocab_size": 151552,
    "add_qkv_bias": True,
    "add_bias_linear": False,
    "seq_length": 131072,
}
SEVEN = {"num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32}
OPENELM = {
    "model_type": "openelm",
    "num_transformer_layers": 16,
    "model_dim": 1280,
    "head_dim": 64,
    "vocab_size": 32000,
    "ffn_dim_divisor": 256,
    "ffn_with_glu": True,
    "normalize_qk_projections": True,
    "share_input_output_layers": True,
    "num_query_heads": [12] * 5 + [16] * 7 + [20] * 4,
    "num_kv_heads": [3] * 5 + [4] * 7 + [5] * 4,
    "ffn_multipliers": [0.5, 0.73, 0.97, 1.2, 1.43, 1.67, 1.9, 2.13, 2.37, 2.6, 2.83, 3.07, 3.3, 3.53, 3.77, 4.0],
}
PUBLISHED = {
    "ChatGLM2-6B": (GLM | {"num_layers": 28, "padded_vocab_size": 65024}, 6_243_584_000),
    "GLM-4-9B": (GLM, 9_399_951_360),
    "Qwen-7B": (SEVEN | {"model_type": "qwen", "intermediate_size": 22016, "vocab_size": 151936}, 7_721_324_544),
    "Baichuan2-7B": (
        SEVEN | {"model_type": "baichuan", "intermediate_size": 11008, "vocab_size": 125696},
        7_505_973_248,
    ),
    "InternLM2-7B": (
        SEVEN
        | {"model_type": "internlm2", "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 92544}
        | {"bias": False},
        7_737_708_544,
    ),
    "EXAONE-3.5-7.8B": (
        {"model_type": "exaone", "num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32}
        | {"num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 102400},
        7_818_448_896,
    ),
    "MiniCPM-2B": (
        {"model_type": "minicpm", "num_hidden_layers": 40, "hidden_size": 2304, "num_attention_heads": 36}
        | {"num_key_value_heads": 36, "intermediate_size": 5760, "vocab_size": 122753},
        2_724_880_896,
    ),
    "OpenELM-270M": (OPENELM, 271_527_168),
    "Phi-2": (
        {"model_type": "phi-msft", "n_layer": 32, "n_embd": 2560, "n_head": 32, "n_head_kv": None, "n_inner": None}
        | {"vocab_size": 51200, "n_positions": 2048},
        2_779_683_840,
    ),
    "StableLM-3B": (
        {"model_type": "stablelm_epoch", "num_hidden_layers": 32, "hidden_size": 2560, "num_attention_heads": 32}
        | {"num_key_value_heads": 32, "intermediate_size": 6912, "vocab_size": 50304},
        2_795_443_200,
    ),
    "Yi-34B": (
        {"model_type": "Yi", "num_hidden_layers": 60, "hidden_size": 7168, "num_attention_heads": 56}
        | {"num_key_value_heads": 8, "intermediate_size": 20480, "vocab_size": 64000},
        34_388_917_248,
    ),
}


def block(kv_heads: int | None, ffn_mult: float | None) -> dict[str, object]:
    """One layer of a found architecture: 8 heads; None: the part is not there."""
    attention = {"no_op": True} if kv_heads is None else {"n_heads_in_group": 8 // kv_heads, "no_op": False}
    return {"attention": attention, "ffn": {"no_op": True} if ffn_mult is None else {"ffn_mult": ffn_mult}}


FOUND = {
    "model_type": "nemotron-nas",
    "hidden_size": 512,
    "num_attention_heads": 8,
    "vocab_size": 100,
    "block_configs": [
        block(2, 2.625),
        block(None, 1.0),
        block(8, None),
        {"attention": {"replace_with_linear": True}, "ffn": {"replace_with_linear": True}},
    ],
}


@pytest.mark.parametrize(("values", "params"), PUBLISHED.values(), ids=PUBLISHED)
def test_parameters_are_as_many_as_published(values, params):
    assert facts_of(values).params == params


@pytest.mark.parametrize("model_type", sorted(REMOTE))
def test_what_cannot_be_proved_says_so(model_type):
    values = tiny("llama") | {"model_type": model_type, "ff_intermediate_size": 96}
    (reason,) = facts_of(values).inexact
    assert "not proved" in reason


def test_groups_of_chatglm_count_only_where_they_are_switched_on():
    assert facts_of(GLM).kv_heads == 2
    assert facts_of(GLM | {"multi_query_attention": False}).kv_heads == 32


@pytest.mark.parametrize("model_type", ["RefinedWeb", "RefinedWebModel"])
def test_falcon_under_its_old_name(model_type):
    if builder_of("falcon") is None:
        pytest.skip("falcon is not known")
    old = {"n_layer": 3, "n_head": 8, "hidden_size": 64, "vocab_size": 128, "bias": False, "parallel_attn": True}
    new = {"num_hidden_layers": 3, "num_attention_heads": 8, **{key: old[key] for key in old if key[:2] != "n_"}}
    more = {"n_head_kv": 2} if model_type == "RefinedWeb" else {"multi_query": True}
    falcon = {"num_kv_heads": 2, "new_decoder_architecture": True} if model_type == "RefinedWeb" else more
    one, other = (
        facts_of({"model_type": model_type, **old, **more}),
        facts_of({"model_type": "falcon", **new, **falcon}),
    )
    assert (one.layers, one.params, one.inexact) == (other.layers, other.params, other.inexact)


@pytest.mark.parametrize("model_type", sorted(set(RENAMED) - {"RefinedWeb", "RefinedWebModel"}))
def test_a_renamed_type_is_sized_as_the_type_that_transformers_has(model_type):
    values = tiny(RENAMED[model_type].model_type)
    known = facts_of(values)
    facts = facts_of(values | {"model_type": model_type})
    assert (facts.layers, facts.params, facts.inexact) == (known.layers, known.params, ())


def test_layers_of_a_found_architecture_hold_what_each_says():
    facts = facts_of(FOUND)
    assert [layer.mixers for layer in facts.layers] == [(Attention(2, 64, 64),), (), (Attention(8, 64, 64),), ()]
    assert [layer.count.total for layer in facts.layers] == [
        2 * 512 * 512 + 2 * 512 * 128 + 512 + 3 * 512 * 1024 + 512,  # 2.625 × 512 × 2 ÷ 3 = 896, up to 4 × 256
        3 * 512 * 512 + 512,
        4 * 512 * 512 + 512,
        2 * (512 * 512 + 512),
    ]


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        (None, ["block_configs"]),
        ([], ["block_configs"]),
        ([7], ["block_configs[0] = 7"]),
        ([{"attention": []}], ["block_configs[0]", "attention = []"]),
        (
            [{"attention": {"n_heads_in_group": 9}, "ffn": {"no_op": True}}],
            ["block_configs[0]", "n_heads_in_group = 9"],
        ),
        ([{"attention": {"no_op": True}}], ["block_configs[0]", "ffn_mult is missing"]),
    ],
)
def test_a_block_at_fault_is_named(blocks, words):
    with pytest.raises(ModelError) as caught:
        facts_of(FOUND | {"block_configs": blocks})
    for word in words:
        assert word in caught.value.message


@pytest.mark.parametrize("key", ["num_query_heads", "num_kv_heads", "ffn_multipliers"])
@pytest.mark.parametrize("value", [[1], None, [0] * 16, ["1"] * 16, [float("nan")] * 16])
def test_a_list_of_openelm_at_fault_is_named(key, value):
    with pytest.raises(ModelError) as caught:
        facts_of(OPENELM | {key: value})
    assert key in caught.value.message


@pytest.mark.parametrize(
    ("name", "params", "per_layer"),
    [
        ("XiaomiMiMo--MiMo-7B-Base", 7_622_619_136, Attention(8, 128, 128)),
        ("microsoft--Phi-3-small-8k-instruct", 7_392_272_384, Attention(8, 128, 128)),
    ],
)
def test_real_configs_of_models_with_code_of_their_own(shared_data, name, params, per_layer):
    path = shared_data / "configs" / f"{name}.json"
    facts = from_config(Config(path.name, json.loads(path.read_text(encoding="utf-8"))))
    assert facts.params == params
    assert {layer.mixers for layer in facts.layers} == {(per_layer,)}
    assert facts.inexact
