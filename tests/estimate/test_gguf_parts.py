"""Models that were split into several GGUF files."""

import pytest
from gguf_writer import llama

from llmcli.errors import ModelError
from llmcli.estimate.gguf.from_gguf import from_gguf
from llmcli.models.gguf import read_gguf
from llmcli.models.gguf_parts import read_parts


def test_one_part_of_a_split_model_is_refused(tmp_path):
    file = llama()
    file.metadata = [*file.metadata, ("split.count", 2)]
    with pytest.raises(ModelError, match="one of 2 parts"):
        from_gguf(read_gguf(file.write(tmp_path / "m.gguf")))


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
    assert from_gguf(*parts) == from_gguf(read_gguf(llama().write(tmp_path / "m.gguf")))
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
