"""What the layers of GGUF files keep: windows, latent attention, states of fixed size."""

import gguf_models as models
import pytest
from gguf_writer import bare

from llmcli.estimate.facts import Attention, Latent, Recurrence
from llmcli.estimate.gguf.from_gguf import from_gguf
from llmcli.models.gguf import read_gguf


def facts(tmp_path, file):
    return from_gguf(read_gguf(file.write(tmp_path / "m.gguf")))


def only(model):
    """What the layers keep, one mixer or None for each."""
    return [layer.mixers[0] if layer.mixers else None for layer in model.layers]


def windows(model):
    return [None if mixer is None else mixer.window for mixer in only(model)]


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
