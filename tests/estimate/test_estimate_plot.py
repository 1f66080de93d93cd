"""`--plot FILE`: a picture that opens, with every model, batch and the VRAM in it."""

import json

import pytest
from answers import GIB, estimate, row
from tiny import tiny

from llmcli.cli.app import run
from llmcli.estimate.render.plot import draw


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "모델 $x$.json"
    path.write_text(json.dumps(tiny("llama", head_dim=16, dtype="bfloat16")))
    return path


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".SVG", b"<?xml")])
def test_the_file_is_what_its_ending_says(capsys, tmp_path, config, suffix, magic):
    file = tmp_path / f"kv{suffix}"
    assert run(["estimate-kv", str(config), "--vram", "1MB", "--plot", str(file)]) == 0
    assert file.read_bytes().startswith(magic)
    captured = capsys.readouterr()
    assert str(file) in captured.err
    assert "bytes per token" in captured.out


def test_what_is_drawn_is_written_in_it(capsys, tmp_path, config):
    other = tmp_path / "other.json"
    other.write_text(config.read_text())
    file = tmp_path / "kv.svg"
    arguments = [str(config), str(other), "--batch", "1,4", "--vram", "1GiB", "--context", "200"]
    assert run(["estimate-kv", *arguments, "--plot", str(file), "--format", "json"]) == 0
    json.loads(capsys.readouterr().out)
    drawn = file.read_text(encoding="utf-8")
    for text in (
        "$x$, batch 1",
        "$x$, batch 4",
        "other, batch 4",
        "KV cache",
        "weights",
        "VRAM 1.00 GiB",
        "context in",
    ):
        assert text in drawn, text


def test_parts_that_nothing_is_known_of_are_not_in_the_legend(tmp_path):
    for overhead, there in ((0, False), (GIB, True)):
        rows = [row(context, kv=context * 2**20, overhead=overhead, vram=8 * GIB) for context in (1, 4096)]
        assert draw([estimate("plain name", rows)], tmp_path / "kv.svg")
        drawn = (tmp_path / "kv.svg").read_text(encoding="utf-8")
        assert ("overhead" in drawn) == there
        assert "weights" in drawn
        assert "activations" not in drawn


def test_a_folder_that_cannot_be_written_is_one_line(capsys, tmp_path, config):
    taken = tmp_path / "kv.png"
    taken.mkdir()
    assert run(["estimate-kv", str(config), "--plot", str(taken)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 2


def test_without_matplotlib_the_extra_is_named(capsys, monkeypatch, tmp_path, config):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert run(["estimate-kv", str(config), "--plot", str(tmp_path / "kv.png")]) == 2
    assert "llmcli[plot]" in capsys.readouterr().err
