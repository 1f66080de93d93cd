import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmcli.errors import ModelError
from llmcli.models.safetensors import INDEX, read_checkpoint, read_header

TENSORS = {"embed": ("BF16", (4, 3)), "norm": ("F32", (3,)), "step": ("I64", ())}
BYTES = {"BF16": 2, "F32": 4, "I64": 8, "U8": 1}


def packed(tensors=TENSORS, *, padding=0, **changes):
    """The bytes of a safetensors file; `changes` replaces parts of its header."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape) in tensors.items():
        size = BYTES[dtype]
        for length in shape:
            size *= length
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    header.update(changes)
    text = json.dumps(header).encode() + b" " * padding
    return len(text).to_bytes(8, "little") + text + bytes(end)


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "model.safetensors"
    file.write_bytes(packed())
    return file


def refusal(read, path):
    with pytest.raises(ModelError) as caught:
        read(path)
    assert caught.value.exit_code == 3
    assert "\n" not in caught.value.message
    return f"{caught.value.message} | {caught.value.hint}"


def sharded(directory, *, index=None):
    """Two shards of one tensor each and their index."""
    names = [f"model-0000{part}-of-00002.safetensors" for part in (1, 2)]
    tensors = {"first": ("U8", (5,))}, {"second": ("BF16", (2, 2))}
    for name, part in zip(names, tensors, strict=True):
        (directory / name).write_bytes(packed(part))
    weight_map = {"first": names[0], "second": names[1]} | (index or {})
    (directory / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return names


def test_every_tensor_is_read_with_its_place(file):
    facts = {tensor.name: tensor for tensor in read_header(file)}
    assert list(facts) == ["embed", "norm", "step"]
    assert (facts["embed"].dtype, facts["embed"].shape, facts["embed"].size) == ("BF16", (4, 3), 24)
    assert (facts["step"].elements, facts["step"].size, facts["step"].file) == (1, 8, file)


def test_the_checkpoint_adds_up(file):
    checkpoint = read_checkpoint(file.parent)
    assert (checkpoint.params, checkpoint.bytes, checkpoint.files) == (12 + 3 + 1, 24 + 12 + 8, (file,))


@given(padding=st.integers(0, 3000))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_a_header_of_any_length_is_a_header(file, padding):
    file.write_bytes(packed(padding=padding))
    assert len(read_header(file)) == 3


@given(kept=st.integers(0, len(packed()) - 1))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_cut_anywhere_is_refused(file, kept):
    file.write_bytes(packed()[:kept])
    message = refusal(read_header, file)
    assert str(file) in message
    if kept > 8:
        assert f"has {kept:,} bytes; its header says " in message
        assert "Incomplete download or copy?" in message


def test_real_and_expected_size_are_told(file):
    whole = packed()
    file.write_bytes(whole[:-1])
    assert f"has {len(whole) - 1:,} bytes; its header says {len(whole):,}, so 1 are missing" in refusal(
        read_header, file
    )
    file.write_bytes(whole + b"xx")
    assert f"has {len(whole) + 2:,} bytes; its header says {len(whole):,}, so 2 are too many" in refusal(
        read_header, file
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 5\n", "a Git LFS pointer"),
        (b"<!DOCTYPE html><html><head>", "a web page"),
        (b"GGUF" + bytes(60), "a GGUF file"),
        (b"PK\x03\x04" + bytes(60), "pickled weights are never loaded"),
        (b"{}", "a file of 2 bytes"),
        ((2**62).to_bytes(8, "little") + b"{}", "neither safetensors nor GGUF"),
    ],
)
def test_another_kind_of_file_is_named(file, content, words):
    file.write_bytes(content)
    assert words in refusal(read_header, file)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"norm": 3}, "tensor norm has no data_offsets"),
        ({"norm": {"dtype": "F32", "shape": [3], "data_offsets": [24, True]}}, "tensor norm has no data_offsets"),
        ({"norm": {"dtype": "F32", "shape": [3], "data_offsets": [36, 24]}}, "ends before it starts"),
        ({"norm": {"dtype": "F32", "shape": [3], "data_offsets": [20, 36]}}, "does not follow"),
        ({"norm": {"dtype": "F32", "shape": [4], "data_offsets": [24, 36]}}, "tensor norm holds 12 bytes"),
        ({"norm": {"dtype": "F32", "shape": [-3], "data_offsets": [24, 36]}}, "tensor norm has no shape"),
        ({"norm": {"dtype": "F99", "shape": [3], "data_offsets": [24, 36]}}, "unknown type 'F99'"),
    ],
)
def test_a_header_that_contradicts_itself_is_refused(file, change, words):
    file.write_bytes(packed(**change))
    assert words in refusal(read_header, file)


@pytest.mark.parametrize("text", [b"{ no json", b"{" * 50_000, b'{"a": "\xff"}'])
def test_a_header_that_is_no_json_is_refused(file, text):
    file.write_bytes(len(text).to_bytes(8, "little") + text)
    assert "its header is no JSON" in refusal(read_header, file)


def test_shards_are_read_together(tmp_path):
    names = sharded(tmp_path)
    checkpoint = read_checkpoint(tmp_path)
    assert [path.name for path in checkpoint.files] == names
    assert (checkpoint.params, checkpoint.bytes) == (9, 13)


def test_a_missing_shard_is_named(tmp_path):
    names = sharded(tmp_path)
    (tmp_path / names[1]).unlink()
    assert f"lacks {names[1]} of the 2 files" in refusal(read_checkpoint, tmp_path)


def test_many_missing_shards_are_counted(tmp_path):
    sharded(tmp_path, index={f"t{n}": f"model-x{n}.safetensors" for n in range(9)})
    message = refusal(read_checkpoint, tmp_path)
    assert "model-x0.safetensors, model-x1.safetensors, model-x2.safetensors and 6 more of the 11 files" in message


def test_a_damaged_shard_is_named(tmp_path):
    names = sharded(tmp_path)
    whole = (tmp_path / names[1]).read_bytes()
    (tmp_path / names[1]).write_bytes(whole[:-1])
    assert names[1] in refusal(read_checkpoint, tmp_path)


def test_a_tensor_that_only_the_index_knows_is_named(tmp_path):
    names = sharded(tmp_path, index={"third": "model-00002-of-00002.safetensors"})
    message = refusal(read_checkpoint, tmp_path)
    assert "lacks the tensor third" in message
    assert names[1] in message


def test_a_whole_file_wins_over_an_index_of_another_export(file):
    absent = "model-00001-of-00030.safetensors"
    (file.parent / INDEX).write_text(json.dumps({"weight_map": dict.fromkeys(TENSORS, absent)}))
    assert read_checkpoint(file.parent).files == (file,)
    (file.parent / INDEX).write_text(json.dumps({"weight_map": {"embed": absent, "head": absent}}))
    assert "lacks the tensor head" in refusal(read_checkpoint, file.parent)


@pytest.mark.parametrize(
    "index", ["{", "[]", "{}", '{"weight_map": {}}', '{"weight_map": {"a": 1}}', '{"weight_map": {"a": "../b"}}']
)
def test_a_damaged_index_is_refused(tmp_path, index):
    (tmp_path / INDEX).write_text(index)
    assert INDEX in refusal(read_checkpoint, tmp_path)


def test_a_single_file_of_another_name_is_refused_with_the_cure(tmp_path):
    (tmp_path / "weights.safetensors").write_bytes(packed())
    with pytest.raises(ModelError, match=r"weights\.safetensors") as caught:
        read_checkpoint(tmp_path)
    assert "Rename it to model.safetensors" in caught.value.hint


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ((), "no weights in"),
        (("README.md",), "no weights in"),
        (("pytorch_model.bin",), "only pickled weights (pytorch_model.bin), which are never loaded"),
        (("x.gguf",), "Give the GGUF file itself: x.gguf"),
        (("a.safetensors", "b.safetensors"), "2 safetensors files and no index: a.safetensors, b.safetensors"),
        (("model-00001-of-00002.safetensors",), f"lacks {INDEX}"),
        (("adapter_config.json", "adapter_model.safetensors"), "an adapter, not a model"),
    ],
)
def test_a_directory_without_usable_weights_says_what_it_holds(tmp_path, names, words):
    for name in names:
        (tmp_path / name).write_bytes(packed())
    assert words in refusal(read_checkpoint, tmp_path)


def test_a_file_without_tensors_is_refused(file):
    file.write_bytes(packed({}))
    assert "holds no tensors" in refusal(read_checkpoint, file.parent)
