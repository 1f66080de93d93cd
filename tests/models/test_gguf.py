"""The GGUF header reader: what it keeps, what it skips, and how it refuses damaged files."""

import os
import struct
import threading
from dataclasses import replace
from pathlib import Path

import gguf
import pytest
from gguf_writer import ARRAY, STRING, U32, Gguf, Raw, llama, text, typed

from llmcli.errors import ModelError, ModelNotFound
from llmcli.models.ggml import TYPES
from llmcli.models.gguf import KEPT_ARRAY, ArrayLength, GgufTensor, read_gguf


def refused(path: Path) -> ModelError:
    with pytest.raises(ModelError) as caught:
        read_gguf(path)
    assert str(path) in caught.value.message
    assert "\n" not in caught.value.message
    return caught.value


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    return path


def test_types_agree_with_the_package_that_transformers_reads_through():
    theirs = {kind.value: (kind.name, *sizes) for kind, sizes in gguf.GGML_QUANT_SIZES.items()}
    assert theirs == TYPES


def test_keeps_scalars_texts_and_short_number_arrays(tmp_path):
    metadata = [
        ("general.architecture", "llama"),
        ("llama.block_count", 30),
        ("llama.rope.freq_base", 10000.0),
        ("tokenizer.ggml.add_bos_token", False),
        ("llama.big", 2**40),
        ("llama.attention.head_count_kv", [2, 0, 2]),
        ("general.languages", ["en", "한국어"]),
        ("long", list(range(KEPT_ARRAY + 1))),
        ("longest kept", list(range(KEPT_ARRAY))),
        ("nested", Raw(struct.pack("<IIQ", ARRAY, ARRAY, 1) + typed(["a"])[4:])),
        ("after", "still in step"),
    ]
    header = read_gguf(Gguf(metadata).write(tmp_path / "m.gguf"))
    assert header.architecture == "llama"
    assert (header.field("block_count"), header.field("rope.freq_base"), header.field("absent")) == (30, 10000.0, None)
    assert header.metadata["tokenizer.ggml.add_bos_token"] is False
    assert header.field("big") == 2**40
    assert header.field("attention.head_count_kv") == (2, 0, 2)
    assert header.metadata["general.languages"] == ArrayLength(2)
    assert header.metadata["long"] == ArrayLength(KEPT_ARRAY + 1)
    assert header.metadata["longest kept"] == tuple(range(KEPT_ARRAY))
    assert header.metadata["nested"] == ArrayLength(1)
    assert header.metadata["after"] == "still in step"


@pytest.mark.parametrize("alignment", [32, 64, 8])
def test_tensor_sizes_and_data_start(tmp_path, alignment):
    file = Gguf(
        [("general.architecture", "x"), ("general.alignment", alignment)],
        [("a", (64, 2), 3, 80), ("b", (5,), 0, 20)],
        alignment=alignment,
    )
    header = read_gguf(file.write(tmp_path / "m.gguf"))
    assert header.data_start == -(-len(file.header()) // alignment) * alignment
    second = -(-80 // alignment) * alignment
    assert header.tensors == (GgufTensor("a", (64, 2), "Q4_1", 0, 80), GgufTensor("b", (5,), "F32", second, 20))
    assert header.needed_size == header.data_start + second + 20
    assert header.params == 133
    assert header.main_type == "Q4_1"
    assert header.complete


def test_agrees_with_the_reader_of_the_gguf_package(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    import numpy

    writer.add_block_count(2)
    writer.add_token_list(["a", "b"])
    writer.add_tensor("token_embd.weight", numpy.zeros((4, 32), dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    header, theirs = read_gguf(tmp_path / "m.gguf"), gguf.GGUFReader(tmp_path / "m.gguf")
    assert header.data_start == theirs.data_offset
    assert [(t.name, t.shape, t.size) for t in header.tensors] == [
        (t.name, tuple(map(int, t.shape)), t.n_bytes) for t in theirs.tensors
    ]


def test_a_file_with_short_tensor_data_is_returned_as_incomplete(tmp_path):
    data = llama().bytes()
    whole = read_gguf(written(tmp_path, data))
    assert whole.complete
    short = read_gguf(written(tmp_path, data[:-100]))
    assert not short.complete
    assert (short.needed_size, short.file_size) == (whole.needed_size, len(data) - 100)


def test_every_cut_in_the_header_is_an_error_and_no_other(tmp_path):
    data = llama(layers=1).header()
    for length in range(len(data)):
        error = refused(written(tmp_path, data[:length]))
        assert error.hint


def test_split_files_are_told(tmp_path):
    file = Gguf([("general.architecture", "llama"), ("split.count", 3)])
    assert read_gguf(file.write(tmp_path / "m-00001-of-00003.gguf")).split_count == 3
    assert read_gguf(llama().write(tmp_path / "m.gguf")).split_count == 1


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "0 bytes"),
        (b"GGUF", "4 bytes"),
        (b"PK\3\4" + bytes(100), "not a GGUF"),
        (Gguf(version=1).bytes(), "version 1"),
        (Gguf(version=4).bytes(), "version 4"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0) + bytes(40), "big-endian"),
        (Gguf(announced={"keys": 2**60}).bytes(), "metadata keys"),
        (Gguf(announced={"tensors": 2**63}).bytes(), "tensors"),
        (replace(llama(), announced={"tensors": 16}).bytes(), "behind the 16 tensors"),
        (Gguf([(b"\xff\xfe", 1)]).bytes(), "UTF-8"),
        (Gguf([("a", b"\xff\xfe")]).bytes(), "UTF-8"),
        (Gguf([("a", 1), ("a", 2)]).bytes(), "twice"),
        (Gguf([("a", Raw(struct.pack("<I", 77)))]).bytes(), "value type 77"),
        (Gguf([("a", Raw(struct.pack("<IIQ", ARRAY, 77, 1)))]).bytes(), "array type 77"),
        (Gguf([("a", Raw(struct.pack("<IIQ", ARRAY, U32, 2**62)))]).bytes(), "numbers"),
        (Gguf([("a", Raw(struct.pack("<IIQ", ARRAY, STRING, 2**61)))]).bytes(), "strings"),
        (Gguf([("a", Raw(struct.pack("<IIQQ", ARRAY, STRING, 1, 2**64 - 1)))]).bytes(), "past the end"),
        (Gguf([("a", Raw(struct.pack("<IQ", STRING, 2**63)))]).bytes(), "past the end"),
        (Gguf([("general.alignment", 3)]).bytes(), "alignment"),
        (Gguf([("general.alignment", "x")]).bytes(), "alignment"),
        (Gguf(tensors=[("a", (1, 1, 1, 1, 1), 0, 4)]).bytes(), "5 dimensions"),
        (Gguf(tensors=[("a", (), 0, 4)]).bytes(), "0 dimensions"),
        (Gguf(tensors=[("a", (0, 4), 0, 4)]).bytes(), "shape"),
        (Gguf(tensors=[("a", (33,), 2, 18)]).bytes(), "blocks of 32"),
        (Gguf(tensors=[("a", (32,), 99, 18)]).bytes(), "type 99"),
    ],
)
def test_refuses_in_one_line(tmp_path, data, word):
    assert word in refused(written(tmp_path, data)).message


def test_deeply_nested_arrays_are_refused(tmp_path):
    nested = struct.pack("<IQ", ARRAY, 1) * 5000
    assert (
        "array type"
        in refused(written(tmp_path, Gguf([("a", Raw(struct.pack("<I", ARRAY) + nested))]).bytes())).message
    )


def test_absent_files_and_directories(tmp_path):
    with pytest.raises(ModelNotFound):
        read_gguf(tmp_path / "none.gguf")
    assert "regular file" in refused(tmp_path).message


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_is_refused_at_once(tmp_path):
    fifo = tmp_path / "pipe.gguf"
    os.mkfifo(fifo)
    reader = threading.Thread(target=refused, args=(fifo,), daemon=True)
    reader.start()
    reader.join(timeout=10)
    assert not reader.is_alive(), "reading a FIFO hangs"


@pytest.mark.skipif(getattr(os, "geteuid", int)() == 0, reason="root may read everything")
def test_an_unreadable_file_is_named(tmp_path):
    path = llama().write(tmp_path / "m.gguf")
    path.chmod(0)
    assert "Permission" in refused(path).message


def test_a_header_without_architecture_says_so(tmp_path):
    header = read_gguf(Gguf([("a", text("x").decode())]).write(tmp_path / "m.gguf"))
    with pytest.raises(ModelError, match=r"general\.architecture"):
        _ = header.architecture


def test_architectures_that_are_called_convertible_are_those_of_transformers():
    from transformers.integrations.gguf.gguf_conversion_mapping import GGUF_ARCHS
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

    from llmcli.models.ggml import CONVERTIBLE

    spelled = {"gpt-oss": "gpt_oss", "minimax-m2": "minimax_m2", "qwen2moe": "qwen2_moe", "qwen3moe": "qwen3_moe"}
    theirs = set(GGUF_SUPPORTED_ARCHITECTURES) | set(GGUF_ARCHS)
    assert {spelled.get(name, name) for name in CONVERTIBLE} <= theirs
    assert theirs - {spelled.get(name, name) for name in CONVERTIBLE} == {"general", "t5", "tokenizer", "umt5"}
