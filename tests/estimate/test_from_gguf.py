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
from llmcli.estimate.facts import Attention, Latent, Recurrence
from llmcli.estimate.from_config import from_config
from llmcli.estimate.from_gguf import from_gguf
from llmcli.estimate.layers import first_token_bytes
from llmcli.models.gguf import read_gguf
from llmcli.models.gguf_parts import read_parts


def facts(tmp_path, file):
    return from_gguf(read_gguf(file.write(tmp_path / "m.gguf")))


def only(model):
    """What the layers keep, one mixer or None for each."""
    return [layer.mixers[0] if layer.mixers else None for layer in model.layers]


def windows(model):
    return [None if mixer is None else mixer.window for mixer in only(model)]


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


@pytest.mark.parametrize(
    ("architecture", "keys", "expected"),
    [
        ("gemma2", {}, [4096, None, 4096, None, 4096, None]),
        ("gemma3", {"attention__sliding_window": 512}, [512] * 5 + [None]),
        ("gemma3", {}, [None] * 6),
        ("gemma3n", {"attention__sliding_window": 512}, [512] * 4 + [None, 512]),
        ("cohere2", {"attention__sliding_window": 64}, [64, 64, 64, None, 64, 64]),
        ("cohere2moe", {"attention__sliding_window": 64}, [None, 64, 64, 64, None, 64]),
        ("laguna", {"attention__sliding_window": 64}, [None, 64, 64, 64, None, 64]),
        ("llama4", {}, [8192, 8192, 8192, None, 8192, 8192]),
        ("llama4", {"attention__sliding_window": 0}, [None] * 6),
        ("gpt-oss", {"attention__sliding_window": 128}, [128, None, 128, None, 128, None]),
        ("smallthinker", {"attention__sliding_window": 64}, [None, 4096, 4096, 4096, None, 4096]),
        ("smallthinker", {}, [None] * 6),
        ("exaone4", {"attention__sliding_window": 64}, [None] * 6),
        ("olmo2", {"attention__sliding_window": 64, "attention__sliding_window_pattern": 2}, [64, None] * 3),
        (
            "mimo2",
            {"attention__sliding_window": 64, "attention__sliding_window_pattern": [True, False] * 3},
            [64, None] * 3,
        ),
        (
            "gemma3",
            {"attention__sliding_window": 64, "attention__sliding_window_pattern": [0, 1, 1, 0, 0, 1]},
            [None, 64, 64, None, None, 64],
        ),
        ("llama", {"attention__sliding_window": 64}, [None] * 6),
        ("qwen3", {"attention__sliding_window": 64, "attention__sliding_window_pattern": [1] * 6}, [None] * 6),
        ("phi3", {"attention__sliding_window": 2047}, [None] * 6),
    ],
)
def test_windows(tmp_path, architecture, keys, expected):
    model = facts(
        tmp_path, bare(architecture, block_count=6, embedding_length=256, **models.attention(4, 2, 64), **keys)
    )
    assert windows(model) == expected


def test_exaone4_of_64_layers_has_windows(tmp_path):
    model = facts(tmp_path, bare("exaone4", block_count=64, embedding_length=256, **models.attention(4, 2, 64)))
    assert windows(model) == [4096, 4096, 4096, None] * 16


def test_gemma4_has_other_heads_in_windows_and_layers_that_share_their_cache(tmp_path):
    keys = {
        "attention__head_count": 8,
        "attention__head_count_kv": [4, 4, 1, 4, 4, 1],
        "attention__key_length": 512,
        "attention__value_length": 512,
        "attention__key_length_swa": 256,
        "attention__value_length_swa": 256,
        "attention__sliding_window": 1024,
        "attention__sliding_window_pattern": [True, True, False] * 2,
        "attention__shared_kv_layers": 2,
    }
    slides, sees_all = Attention(4, 256, 256, window=1024), Attention(1, 512, 512)
    model = facts(tmp_path, bare("gemma4", block_count=6, embedding_length=2048, **keys))
    assert only(model) == [slides, slides, sees_all, slides, None, None]


def test_gemma3n_caches_the_first_20_layers(tmp_path):
    keys = models.attention(8, 2, 256, attention__sliding_window=512)
    model = facts(tmp_path, bare("gemma3n", block_count=35, embedding_length=2048, **keys))
    assert [mixer is None for mixer in only(model)] == [False] * 20 + [True] * 15


def test_latent_attention(tmp_path):
    model = facts(tmp_path, models.deepseek_r1())
    assert only(model) == [Latent(512, 64, heads=128, nope_dim=128, value_dim=128)] * 61
    assert model.model_type == "deepseek_v3"


def test_latent_attention_in_files_that_keep_it_expanded(tmp_path):
    keys = {
        "attention__head_count": 16,
        "attention__key_length": 192,
        "attention__value_length": 128,
        "attention__kv_lora_rank": 512,
    }
    model = facts(tmp_path, bare("deepseek2", block_count=3, embedding_length=2048, **keys))
    assert only(model) == [Attention(16, 192, 128)] * 3


@pytest.mark.parametrize(
    ("architecture", "more", "indexed"),
    [
        ("deepseek32", {}, list(range(8))),
        ("glm-dsa", {}, list(range(8))),
        ("glm-dsa", {"context_length": 1_048_576}, [0, 1, 2, 6]),
        ("glm-dsa", {"attention__indexer__types": [1, 0, 0, 0, 1, 0, 0, 0]}, [0, 4]),
        ("deepseek2", {}, []),
    ],
)
def test_indexer_keys(tmp_path, architecture, more, indexed):
    model = facts(tmp_path, models.latent(architecture, 8, 64, 192, 256, attention__indexer__key_length=128, **more))
    assert [index for index, mixer in enumerate(only(model)) if mixer.index_dim == 128] == indexed


def test_draft_blocks_are_no_layers(tmp_path):
    file = models.latent("deepseek2", 4, 64, 128, 128, nextn_predict_layers=1)
    file.tensors = [("blk.2.ffn_down.weight", (64, 8), 0, 2048), ("blk.3.nextn.eh_proj.weight", (64, 8), 0, 2048)]
    model = facts(tmp_path, file)
    assert model.layer_count == 3
    assert model.params == 512


DELTA = Recurrence(10240, 4, 128 * 6144)


@pytest.mark.parametrize(
    ("more", "full"),
    [
        ({}, range(3, 64, 4)),
        ({"full_attention_interval": 8}, range(7, 64, 8)),
        ({"attention__recurrent_layers": [index > 1 for index in range(64)]}, (0, 1)),
    ],
)
def test_linear_attention_in_all_layers_but_every_nth(tmp_path, more, full):
    held = only(facts(tmp_path, models.qwen36_27b(**more)))
    assert [index for index, mixer in enumerate(held) if mixer == Attention(4, 256, 256)] == list(full)
    assert held.count(DELTA) == 64 - len(full)


STATES = {"ssm__conv_kernel": 4, "ssm__inner_size": 256, "ssm__state_size": 16, "ssm__group_count": 2}


def test_layers_without_kv_heads_are_recurrent_in_hybrids(tmp_path):
    keys = {"attention__head_count": 8, "attention__head_count_kv": [0, 2, 0], **STATES}
    model = facts(tmp_path, bare("granitehybrid", block_count=3, embedding_length=128, **keys))
    state = Recurrence(256 + 2 * 2 * 16, 4, 256 * 16)
    assert only(model) == [state, Attention(2, 16, 16), state]
    assert (model.heads, model.kv_heads, model.head_dim) == (8, 2, 16)


def test_layers_of_nemotron_h_with_an_mlp_keep_nothing(tmp_path):
    keys = models.attention(8, [0, 0, 2], 16, feed_forward_length=[0, 64, 0], **STATES)
    model = facts(tmp_path, bare("nemotron_h", block_count=3, embedding_length=128, **keys))
    assert [type(mixer) for mixer in only(model)] == [Recurrence, type(None), Attention]


def test_both_side_by_side_in_falcon_h1(tmp_path):
    model = facts(
        tmp_path, bare("falcon-h1", block_count=2, embedding_length=128, **models.attention(8, 2, 16), **STATES)
    )
    assert [tuple(map(type, layer.mixers)) for layer in model.layers] == [(Attention, Recurrence)] * 2


def test_delta_attention_of_kimi(tmp_path):
    keys = {"kda__head_dim": 128, "ssm__conv_kernel": 4, "attention__head_count_kv": [0, 1]}
    held = only(facts(tmp_path, models.latent("kimi-linear", 2, 32, 128, 128, **keys)))
    assert held[0] == Recurrence(3 * 32 * 128, 4, 128 * 128 * 32)
    assert isinstance(held[1], Latent)


def test_lightning_attention_of_minimax(tmp_path):
    held = only(facts(tmp_path, bare("minimax-01", block_count=8, embedding_length=512, **models.attention(4, 1, 128))))
    assert held == [Recurrence(state=128 * 128 * 4)] * 7 + [Attention(1, 128, 128)]


def test_falcon_with_several_kv_heads_is_broadcast_by_transformers(tmp_path):
    new = facts(tmp_path, bare("falcon", block_count=1, embedding_length=8192, **models.attention(128, 8, 64)))
    old = facts(tmp_path, bare("falcon", block_count=1, embedding_length=4544, **models.attention(71, 1, 64)))
    assert (only(new)[0].cached_heads, only(old)[0].cached_heads) == (128, None)


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
    assert "lists no tensors" in model.warnings[0]


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


def test_one_part_of_a_split_model_is_refused(tmp_path):
    file = llama()
    file.metadata = [*file.metadata, ("split.count", 2)]
    with pytest.raises(ModelError, match="one of 2 parts"):
        facts(tmp_path, file)


def split(tmp_path, name="m-{}-of-00002.gguf"):
    """A llama in two files: the keys and the embedding, and the layers."""
    whole, first, second = llama(), llama(), llama()
    first.metadata = [*whole.metadata, ("split.count", 2)]
    first.tensors = whole.tensors[:3]
    second.metadata = [("general.architecture", "llama"), ("split.count", 2)]
    second.tensors = whole.tensors[3:]
    second.write(tmp_path / name.format("00002"))
    return first.write(tmp_path / name.format("00001"))


def test_all_parts_of_a_split_model_are_the_model(tmp_path):
    parts = read_parts(split(tmp_path))
    assert from_gguf(*parts) == facts(tmp_path, llama())
    whole = read_gguf(llama().write(tmp_path / "whole.gguf"))
    assert sum(part.tensor_bytes for part in parts) == whole.tensor_bytes


def test_a_model_in_one_file_has_one_part(tmp_path):
    assert len(read_parts(llama().write(tmp_path / "m.gguf"))) == 1


def test_a_missing_part_is_named(tmp_path):
    path = split(tmp_path)
    (tmp_path / "m-00002-of-00002.gguf").unlink()
    with pytest.raises(ModelError, match="m-00002-of-00002"):
        read_parts(path)


def test_another_part_than_the_first_names_the_first(tmp_path):
    split(tmp_path)
    with pytest.raises(ModelError, match="not the first part") as caught:
        read_parts(tmp_path / "m-00002-of-00002.gguf")
    assert "m-00001-of-00002.gguf" in caught.value.hint


def test_parts_under_other_names_are_refused(tmp_path):
    with pytest.raises(ModelError, match="its name says not which"):
        read_parts(split(tmp_path, "m{}.gguf"))


def test_a_tied_embedding_is_known(tmp_path):
    assert read_gguf(llama(tied=True).write(tmp_path / "a.gguf")).tied_bytes == 2 * 64 * 128
    assert read_gguf(llama(tied=False).write(tmp_path / "b.gguf")).tied_bytes == 0


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
