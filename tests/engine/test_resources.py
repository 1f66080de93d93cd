"""What is held in memory, and how a prompt is cut."""

import gc
import weakref

import pytest
import torch

from llmcli.engine.architectures import chunk_tokens
from llmcli.engine.failures import translate
from llmcli.engine.thread import InferenceThread
from llmcli.errors import OutOfMemory
from llmcli.prefill_rules import CONTINUABLE


class Heavy:
    pass


def test_the_thread_keeps_no_result():
    thread = InferenceThread()
    kept = weakref.ref(thread.call(Heavy))
    thread.call(lambda: None)
    gc.collect()
    assert kept() is None


def test_an_error_of_a_job_is_raised_where_it_was_asked_for():
    def job():
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        InferenceThread().call(job)


def test_running_out_of_memory_lets_go_of_what_filled_it():
    kept = []

    def forward():
        cache = Heavy()
        kept.append(weakref.ref(cache))
        raise torch.OutOfMemoryError("CUDA out of memory.")

    try:
        forward()
    except torch.OutOfMemoryError as error:
        ours = translate(error, "answering", "Shorten the prompt.")
    gc.collect()
    assert isinstance(ours, OutOfMemory)
    assert kept[0]() is None


def test_chunks_get_shorter_as_models_grow_and_never_depend_on_time():
    sizes = [chunk_tokens("llama", "cpu", params) for params in (1, 135_000_000, 10**9, 8 * 10**9, 10**12)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 256
    assert sizes[-1] == 64
    assert chunk_tokens("llama", "cuda", 8 * 10**9) == 2048
    assert chunk_tokens("brand_new", "cpu", 1) is None
    assert "mamba" not in CONTINUABLE
