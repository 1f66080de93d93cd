"""`--vram auto`: the GPUs of this machine, what is free on each, and what to write where there are none."""

import json
from functools import partial

import pytest

from llmcli.cli.app import run

GIB = 2**30


@pytest.fixture
def cards(nvml):
    """Make NVML find GPUs of these names, with 1, 2, … GiB free of 80."""
    return partial(nvml, memory=lambda i: ((i + 1) * GIB, 80 * GIB))


def answer(capsys) -> dict:
    assert run(["estimate-kv", "--vram", "auto", "--context", "4k", "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_free_memory_of_all_gpus_is_what_it_has_to_fit_into(capsys, cards):
    cards("NVIDIA H200", b"NVIDIA L4")
    data = answer(capsys)
    assert data["gpus"] == [
        {"index": 0, "name": "NVIDIA H200", "total_bytes": 80 * 2**30, "free_bytes": 2**30},
        {"index": 1, "name": "NVIDIA L4", "total_bytes": 80 * 2**30, "free_bytes": 2 * 2**30},
    ]
    assert data["rows"][0]["vram_bytes"] == 3 * 2**30


def test_gpus_that_are_hidden_do_not_count(capsys, cards, monkeypatch):
    cards("A", "A")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    data = answer(capsys)
    assert [gpu["free_bytes"] for gpu in data["gpus"]] == [2 * 2**30]


def test_the_table_shows_total_and_free(capsys, cards):
    cards("NVIDIA H200")
    assert run(["estimate-kv", "--vram", "AUTO"]) == 0
    assert "GPU 0, NVIDIA H200: 1.00 GiB of 80.00 GiB free" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("names", "visible", "word"),
    [
        ((), None, "finds no NVIDIA GPU"),
        (("A", "B"), "1", "cannot tell which GPUs"),
        (("A",), "", "finds no NVIDIA GPU"),
    ],
)
def test_without_a_gpu_it_says_what_to_write(capsys, cards, monkeypatch, names, visible, word):
    cards(*names)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert run(["estimate-kv", "--vram", "auto"]) == 2
    captured = capsys.readouterr()
    assert word in captured.err
    assert "--vram 24GiB" in captured.err
    assert captured.out == ""
