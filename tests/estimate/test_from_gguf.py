"""Facts from GGUF headers."""

import pytest
from gguf_writer import llama
from tiny import tiny

from llmcli.errors import ModelError
from llmcli.estimate.config import Config
from llmcli.estimate.from_config import from_config
from llmcli.estimate.from_gguf import from_gguf
from llmcli.estimate.layers import first_token_bytes
from llmcli.models.gguf import read_gguf


def facts(tmp_path, file):
    return from_gguf(read_gguf(file.write(tmp_path / "m.gguf")))


@pytest.mark.parametrize("tied", [True, False])
def test_says_the_same_as_the_config_of_the_model(tmp_path, tied):
    same = {"num_hidden_layers": 2, "head_dim": 16, "max_position_embeddings": 512, "tie_word_embeddings": tied}
    config = from_config(Config("c", tiny("llama", dtype="bfloat16", **same)))
    assert facts(tmp_path, llama(tied=tied)) == config


def test_absent_kv_heads_mean_all_heads(tmp_path):
    file = llama(attention__head_count_kv=None)
    file.tensors = [tensor for tensor in file.tensors if "attn_k" not in tensor[0]]
    assert facts(tmp_path, file).kv_heads == 4


def test_an_explicit_key_length_is_the_head_dim(tmp_path):
    file = llama(attention__key_length=48, attention__head_count_kv=1)
    file.tensors = [
        (name, (64, 48), kind, 2 * 64 * 48) if "attn_k" in name else (name, shape, kind, size)
        for name, shape, kind, size in file.tensors
    ]
    assert first_token_bytes(facts(tmp_path, file).layers, 2) == 2 * 2 * 48 * 2


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
        ({"attention__head_count_kv": [2, 0]}, ["attention.head_count_kv = (2, 0)"]),
        ({"embedding_length": 63}, ["63"]),
        ({"expert_count": 8}, ["MoE"]),
        ({"attention__kv_lora_rank": 512}, ["MLA"]),
        ({"ssm__state_size": 16}, ["recurrent"]),
        ({"attention__sliding_window_pattern": 6}, ["sliding-window"]),
    ],
)
def test_refused_with_the_reason(tmp_path, changes, words):
    with pytest.raises(ModelError) as caught:
        facts(tmp_path, llama(**changes))
    assert caught.value.exit_code == 3
    for word in ["m.gguf", *words]:
        assert word in caught.value.message


def test_other_architectures_are_refused_by_name(tmp_path):
    file = llama()
    file.metadata = [("general.architecture", "gemma3"), *file.metadata[1:]]
    with pytest.raises(ModelError, match="gemma3 cannot be sized yet"):
        facts(tmp_path, file)


def test_a_split_model_is_refused(tmp_path):
    file = llama()
    file.metadata = [*file.metadata, ("split.count", 2)]
    with pytest.raises(ModelError, match="one of 2 parts"):
        facts(tmp_path, file)


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
    assert first_token_bytes(model.layers, 2) == 23_040
    assert (model.layer_count, model.kv_heads, model.head_dim, model.positions) == (30, 3, 64, 8192)
    assert model.linear_params == 30 * (2 * 576 * 576 + 2 * 576 * 192 + 3 * 576 * 1536)
