"""`--kv-dtype`, `--kv-offload`, `--prefill-chunk`, `--device-map` and torchrun, as a person sees them."""

import json
import os
import subprocess
import sys

import pytest
from known_configs import LLAMA_8B

from llmcli.cli import fitting, hardware
from llmcli.cli.fitting import Weights, fit_of
from llmcli.cli.hardware import Place
from llmcli.cli.options import ModelOptions
from llmcli.errors import UsageError
from llmcli.units import GIB

WEIGHTS = Weights(LLAMA_8B | {"dtype": "bfloat16"}, 16_060_522_496, "bfloat16")


def test_a_quantized_cache_is_announced_as_lossy(llmcli, tiny):
    ran = llmcli("chat", tiny, "-p", "hi", "--max-new-tokens", "3", "--kv-dtype", "fp8", "--json", "--no-log")
    assert ran.code == 0
    assert "notice: --kv-dtype fp8 is lossy" in ran.err
    assert " · KV fp8 · " in ran.err
    held = ran.json()["tokens"]["prompt"] + ran.json()["tokens"]["generated"] - 1
    sized = llmcli("estimate-kv", tiny, "--kv-dtype", "fp8", "--context", str(held), "--format", "json").json()
    assert ran.json()["memory"]["kv_bytes"] == sized["rows"][0]["kv_bytes"]
    assert sized["kv"]["exact"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--kv-dtype", "q4_0"), "--kv-dtype 'q4_0' is nothing that transformers keeps a cache in"),
        (("--kv-dtype", "bf16"), "--kv-dtype bfloat16 is not possible"),
        (("--kv-dtype", "fp8", "--kv-offload"), "--kv-offload with --kv-dtype fp8 is not possible"),
        (("--kv-dtype", "fp8", "--speculate", "ngram"), "--kv-dtype fp8 does not go with --speculate"),
        (("--prefill-chunk", "0"), "--prefill-chunk 0 is not allowed"),
        (("--device-map", "auto", "--device", "cpu"), "--device-map auto with --device cpu is not possible"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_loads(llmcli, tiny, flags, words, monkeypatch):
    monkeypatch.setattr("llmcli.cli.opening.start_engine", None)
    for command in (("chat", tiny, "-p", "hi"), ("bench", tiny)):
        ran = llmcli(*command, *flags)
        assert (ran.code, ran.out) == (2, "")
        assert words in ran.err
        assert len(ran.err.splitlines()) == 2


def test_a_format_that_nothing_here_packs_says_what_to_install(llmcli, tiny, monkeypatch):
    monkeypatch.setattr("llmcli.kv_rules._installed", lambda _module: False)
    for name in ("int8", "int4"):
        ran = llmcli("chat", tiny, "-p", "hi", "--kv-dtype", name)
        assert ran.code == 2
        assert "pip install hqq" in ran.err


@pytest.fixture
def machine(monkeypatch):
    """Two GPUs with 10 GiB free each, and as much main memory as said."""

    def be(cpu):
        places = tuple(Place(f"cuda:{i}", 10 * GIB, 11 * GIB) for i in range(2))
        for module in (hardware, fitting):
            monkeypatch.setattr(module, "gpus", lambda: places)
            monkeypatch.setattr(module, "memory", lambda device="cpu": Place(device, cpu * GIB, cpu * GIB))
        monkeypatch.setattr(hardware, "torch_build", lambda: "cuda")

    return be


def test_a_map_plans_with_all_gpus_and_then_with_main_memory(machine):
    machine(30)
    assert fit_of(WEIGHTS, ModelOptions()).place.free == 10 * GIB
    spread = fit_of(WEIGHTS, ModelOptions(spread=True))
    assert (spread.place.device, spread.place.free) == ("cuda:0 + cuda:1", int(19.5 * GIB))
    wide = fit_of(WEIGHTS, ModelOptions(spread=True, dtype="float32"))
    assert (wide.place.device, wide.place.free) == ("cuda:0 + cuda:1 + cpu", 49 * GIB)


def test_processes_plan_with_the_gpus_that_they_have_together(machine, monkeypatch):
    machine(30)
    for name, value in (("WORLD_SIZE", "2"), ("LOCAL_WORLD_SIZE", "2"), ("RANK", "0"), ("TORCHELASTIC_RUN_ID", "x")):
        monkeypatch.setenv(name, value)
    fit = fit_of(WEIGHTS, ModelOptions())
    assert fit.bytes <= fit.place.free == int(19.5 * GIB)


def test_a_smaller_or_offloaded_cache_makes_room_for_a_longer_context(machine):
    machine(3)
    nf4 = {"quant": "nf4"}
    plain, fp8, offloaded = (
        fit_of(WEIGHTS, ModelOptions(**nf4, **more)) for more in ({}, {"kv_dtype": "fp8"}, {"kv_offload": True})
    )
    held = 10_000
    assert fp8.need.cache(held) * 2 == plain.need.cache(held)
    assert offloaded.need.cache(held) * 16 == plain.need.cache(held), "2 of 32 layers are on the GPU"
    main_memory = 3 * GIB // (plain.need.cache(held) // held)
    assert offloaded.longest == main_memory // 256 * 256


def test_a_model_with_windows_is_refused_by_its_config(machine):
    machine(30)
    windows = LLAMA_8B | {"model_type": "mistral", "sliding_window": 4096, "dtype": "bfloat16"}
    with pytest.raises(UsageError, match="full-attention layers only"):
        fit_of(Weights(windows, 1, "bfloat16"), ModelOptions(kv_dtype="fp8"))


@pytest.mark.skipif(sys.platform == "win32", reason="torchrun there has no gloo over loopback by default")
def test_two_processes_answer_as_one_and_only_the_first_talks(llmcli, tiny, tmp_path):
    asked = ("chat", str(tiny), "--max-new-tokens", "8", "--json")
    prompt = tmp_path / "prompt"
    prompt.write_text("hello")
    one = llmcli(*asked, "--no-log", stdin=prompt).json()
    program = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "llmcli"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with prompt.open() as stdin:
        ran = subprocess.run(
            [*program, *asked], check=False, capture_output=True, text=True, stdin=stdin, env=environment, timeout=120
        )
    assert ran.returncode == 0, ran.stderr
    two = json.loads(ran.stdout)
    assert two["text"] == one["text"]
    assert two["tokens"] == one["tokens"]
    assert two["memory"]["kv_bytes"] == one["memory"]["kv_bytes"]
    assert two["model"]["weight_bytes"] == one["model"]["weight_bytes"]
    assert two["model"]["device"] == "cpu × 2 processes (tensor parallel)"
    assert ran.stderr.count("loaded in") == 1
    logged = llmcli("log", "list", "--format", "json").json()["requests"]
    assert [record["id"] for record in logged] == [two["id"]]
