"""Facts from GGUF headers."""

import struct
from dataclasses import replace

import gguf_models as models
import pytest
from gguf_writer import Raw, bare, llama, text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny import tiny

from llmcli.errors import ModelError
from llmcli.estimate.config import Config
from llmcli.estimate.dtypes import FLOATS
from llmcli.estimate.engines.transformers import TRANSFORMERS
from llmcli.estimate.facts import Attention
from llmcli.estimate.from_config import from_config
from llmcli.estimate.gguf.from_gguf import from_gguf
from llmcli.estimate.layers import first_token_bytes
from llmcli.models.gguf import read_gguf


def facts(tmp_path, file):
    return from_gguf(read_gguf(file.write(tmp_path / "m.gguf")))


def only(model):
    """What the layers keep, one mixer or None for each."""
    return [layer.mixers[0] if layer.mixers else None for layer in model.layers]


def token_bytes(model):
    return first_token_bytes(TRANSFORMERS.storage(model, FLOATS["bfloat16"], "bfloat16"))


@pytest.mark.parametrize("tied", [True, False])
def test_says_the_same_as_the_config_of_the_model(tmp_path, tied):
    same = {"num_hidden_layers": 2, "head_dim": 16, "max_position_embeddings": 512, "tie_word_embeddings": tied}
    config = from_config(Config("c", tiny("llama", dtype="bfloat16", **same)))
    assert facts(tmp_path, llama(tied=tied)) == config


def test_absent_kv_heads_mean_all_heads(tmp_path):
    file = llama(attention__head_count_kv=None)
    file.tensors = [tensor for tensor in file.tensors if "attn_k" not in tensor[0]]
    assert facts(tmp_path, file).kv_heads == 4


def test_explicit_lengths_are_those_of_a_head(tmp_path):
    file = llama(attention__key_length=48, attention__value_length=32, attention__head_count_kv=1)
    file.tensors = [
        (name, (64, 48), kind, 2 * 64 * 48) if "attn_k" in name else (name, shape, kind, size)
        for name, shape, kind, size in file.tensors
    ]
    assert token_bytes(facts(tmp_path, file)) == 2 * (48 + 32) * 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"block_count": None}, ["block_count is missing"]),
        ({"block_count": 0}, ["block_count = 0"]),
        ({"block_count": 2**40}, ["block_count"]),
        ({"block_count": "two"}, ["block_count = 'two'"]),
        ({"attention__head_count": 0}, ["attention.head_count = 0"]),
        ({"attention__head_count_kv": 3}, ["3 KV heads", "4 attention heads"]),
        ({"attention__head_count_kv": 4}, ["4 KV heads", "blk.0.attn_k.weight"]),
        ({"attention__head_count_kv": [2, 2, 2]}, ["attention.head_count_kv", "a list of 3 for a model of 2 layers"]),
        ({"attention__head_count_kv": "two"}, ["attention.head_count_kv = 'two'"]),
        ({"attention__head_count_kv": True}, ["attention.head_count_kv = true"]),
        ({"attention__head_count": None}, ["attention.head_count is missing"]),
        ({"embedding_length": 63}, ["63"]),
    ],
)
def test_refused_with_the_reason(tmp_path, changes, words):
    with pytest.raises(ModelError) as caught:
        facts(tmp_path, llama(**changes))
    assert caught.value.exit_code == 3
    for word in ["m.gguf", *words]:
        assert word in caught.value.message


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (bare("bert", block_count=2), "an encoder"),
        (bare("clip", block_count=2), "the vision or audio part"),
        (bare("t5", block_count=2), "an encoder-decoder model"),
        (bare("llada", block_count=2), "a diffusion model"),
        (bare("deepseek4", block_count=2), "compressed rows"),
        (bare("strange", block_count=2, ssm__state_size=16), r"recurrent layers \(strange.ssm.state_size\)"),
        (bare("mamba", block_count=2, ssm__conv_kernel=4), "ssm.inner_size is missing"),
        (bare("gemma4", block_count=2, **models.attention(4, 1, 64), attention__sliding_window=64), "is no list of 2"),
    ],
)
def test_what_cannot_be_sized_is_refused_by_name(tmp_path, file, words):
    with pytest.raises(ModelError, match=words) as caught:
        facts(tmp_path, file)
    assert "m.gguf" in caught.value.message


def test_a_projector_beside_a_model_is_refused(tmp_path):
    file = llama()
    file.metadata = [*file.metadata, ("general.type", "mmproj")]
    with pytest.raises(ModelError, match=r"general\.type = 'mmproj'"):
        facts(tmp_path, file)


def test_an_architecture_that_is_not_known_is_an_upper_bound(tmp_path):
    keys = models.attention(8, 2, 64, attention__sliding_window=128, context_length=4096)
    model = facts(tmp_path, bare("strange", block_count=3, embedding_length=512, **keys))
    assert only(model) == [Attention(2, 64, 64)] * 3
    assert model.model_type == "strange"
    assert "upper bound" in model.inexact[0]


def test_experts_and_what_one_token_uses_of_them(tmp_path):
    file = bare(
        "qwen3moe",
        block_count=1,
        embedding_length=64,
        expert_count=8,
        expert_used_count=2,
        expert_feed_forward_length=32,
        **models.attention(4, 2, 16),
    )
    shapes = {f"blk.0.ffn_{name}_exps.weight": (64, 32, 8) for name in ("gate", "up", "down")}
    shapes |= {"blk.0.ffn_gate_inp.weight": (64, 8), "blk.0.attn_norm.weight": (64,), "token_embd.weight": (64, 128)}
    file.tensors = [(name, shape, 1, 1) for name, shape in shapes.items()]
    model = from_gguf(replace(read_gguf(file.write(tmp_path / "m.gguf")), file_size=2**30))
    experts = 3 * 64 * 32 * 8
    assert model.params == experts + 64 * 8 + 64 + 64 * 128
    assert model.active_params == model.params - experts * 6 // 8
    assert (model.count.experts, model.count.linear, model.intermediate) == (experts, 64 * 8, 64)


def test_a_file_that_lists_no_tensors_is_sized_but_for_its_parameters(tmp_path):
    model = facts(tmp_path, models.dense_36())
    assert token_bytes(model) == 36 * 8 * 256 * 2
    assert model.params == 0
    assert "holds no weights" in model.warnings[0]


def test_the_vocabulary_is_the_length_of_a_token_list_that_is_not_read(tmp_path):
    file = models.dense_36()
    tokens = 50_000
    broken = struct.pack("<IIQ", 9, 8, tokens) + text(b"\xff\xfe") * tokens
    file.metadata = [*file.metadata[:-1], ("tokenizer.ggml.tokens", Raw(broken))]
    model = facts(tmp_path, file)
    assert model.vocabulary == tokens


ODD = [0, 1, 7, -1, 2**40, 2**63, True, "x", 1.5, [], [0, 0], [1, 2, 3], [True, False], ["a"], [2**31] * 5000]
FUZZED = [
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.key_length_mla",
    "attention.value_length_mla",
    "attention.kv_lora_rank",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.shared_kv_layers",
    "attention.recurrent_layers",
    "attention.indexer.key_length",
    "attention.indexer.types",
    "block_count",
    "embedding_length",
    "expert_used_count",
    "feed_forward_length",
    "full_attention_interval",
    "kda.head_dim",
    "nextn_predict_layers",
    "shortconv.l_cache",
    "ssm.conv_kernel",
    "ssm.inner_size",
    "wkv.head_size",
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.sampled_from(["llama", "gemma3", "gemma4", "deepseek2", "glm-dsa", "qwen35", "nemotron_h", "mamba", "rwkv7"]),
    st.dictionaries(st.sampled_from(FUZZED), st.sampled_from(ODD), max_size=6),
)
def test_odd_values_are_sized_or_refused_in_one_line(tmp_path, architecture, odd):
    keys = {"block_count": 2, "embedding_length": 64, "attention.head_count": 4, "attention.key_length": 16} | odd
    file = bare(architecture)
    file.metadata = [file.metadata[0], *((f"{architecture}.{key}", value) for key, value in keys.items())]
    try:
        said = str(token_bytes(facts(tmp_path, file)))
    except ModelError as error:
        said = error.message
    assert said.isdigit() or "m.gguf" in said
    assert "\n" not in said
    assert len(said) < 300 + len(str(tmp_path))


def test_a_truncated_file_is_refused_with_both_sizes(tmp_path):
    data = llama().bytes()
    path = tmp_path / "m.gguf"
    path.write_bytes(data[:-1000])
    with pytest.raises(ModelError) as caught:
        from_gguf(read_gguf(path))
    header = read_gguf(path)
    assert str(header.file_size) in caught.value.message
    assert str(header.needed_size) in caught.value.message


@pytest.mark.default_model
def test_the_default_model(default_gguf):
    model = from_gguf(read_gguf(default_gguf))
    assert model.params == 134_515_008
    assert token_bytes(model) == 23_040
    assert (model.layer_count, model.kv_heads, model.head_dim, model.positions) == (30, 3, 64, 8192)
    assert model.linear_params == 30 * (2 * 576 * 576 + 2 * 576 * 192 + 3 * 576 * 1536)
