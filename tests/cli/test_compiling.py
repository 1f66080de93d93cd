"""Compiled decode steps from the outside: when they are made, what is said of it, and what serves meanwhile."""

import json
import re

import compiled
import pytest
from tiny_models import byte_tokenizer, tiny_model

from llmcli.engine.compile import launch, store

ASK = ("-p", "hi", "--max-new-tokens", 3)
BENCH = ("--prompt-len", 8, "--out-len", 4, "--repeats", 1, "--warmup", 0, "--no-log")
COMPILING = "compiling the decode step (once, about a minute) …"
NO_COMPILER = "notice: decode is eager: there is no C++ compiler here (g++ or clang++)"


@pytest.fixture
def model(compilable):
    return compilable


@pytest.fixture
def made(compiled_model, monkeypatch):
    """Stands in for the process that compiles; returns what it was asked for. It makes the step of one row only."""
    asked = []

    def compile_now(recipe):
        asked.append(recipe)
        compiled.put(compiled_model[1])

    monkeypatch.setattr(launch, "compile_now", compile_now)
    return asked


# bench and models compile, which wait


def test_bench_compiles_first_and_says_so_once(llmcli, model, made):
    first = llmcli("bench", model, *BENCH, "--format", "json")
    assert first.code == 0, first.err
    assert first.err.count("compiling") == first.err.count(COMPILING) == 1
    assert "eager" not in first.err
    assert first.json()["model"]["decode_path"] == "compiled"
    again = llmcli("bench", model, *BENCH, "--format", "json")
    assert "compiling" not in again.err
    assert again.json()["model"]["decode_path"] == "compiled"
    assert len(made) == 1


def test_bench_compiles_for_each_size_of_a_batch(llmcli, model, made):
    ran = llmcli("bench", model, *BENCH, "--batch", "1,2")
    assert ran.code == 0, ran.err
    assert [recipe.rows for recipe in made] == [1, 2]
    assert "compiling the decode step for batches of 2 (once, about a minute) …" in ran.err
    assert ran.err.count("notice: decode is eager: compiling failed: it ended without a word") == 1


def test_bench_measures_eager_steps_without_compiling(llmcli, model, nothing_starts):
    ran = llmcli("bench", model, *BENCH, "--decode", "eager", "--format", "json")
    assert (ran.code, "compil" in ran.err) == (0, False)
    assert ran.json()["model"]["decode_path"] == "eager"


def test_what_the_process_said_last_is_told(llmcli, model, monkeypatch, home):
    def compile_now(_recipe):
        (home / "state").mkdir(exist_ok=True)
        (home / "state" / launch.LOG).write_text("Traceback …\n[Errno 28] No space left on device\n\n")

    monkeypatch.setattr(launch, "compile_now", compile_now)
    ran = llmcli("bench", model, *BENCH)
    assert ran.code == 0
    told = "notice: decode is eager: compiling failed: [Errno 28] No space left on device"
    assert f"{told} ({home / 'state' / launch.LOG})" in ran.err.splitlines()


def test_a_process_that_cannot_be_started_is_told(llmcli, model, monkeypatch):
    def compile_now(_recipe):
        raise FileNotFoundError(2, "No such file", "python")

    monkeypatch.setattr(launch, "compile_now", compile_now)
    ran = llmcli("bench", model, *BENCH)
    assert ran.code == 0
    assert "notice: decode is eager: the compiler cannot be started: [Errno 2] No such file: 'python'" in ran.err


def test_models_compile_and_what_show_tells_of_it(llmcli, model, made):
    assert llmcli("models", "add", "small", model).code == 0
    assert "compiled" not in llmcli("models", "show", "small").out
    assert llmcli("models", "show", "small", "--format", "json").json()["compiled"] == []
    ran = llmcli("models", "compile", "small")
    assert (ran.code, ran.out) == (0, ""), ran.err
    assert COMPILING in ran.err
    assert ran.err.splitlines()[-1] == "small: the decode step is compiled"
    shown = llmcli("models", "show", "small").out
    threads = f"{made[0].threads} thread{'s' * (made[0].threads > 1)}"
    assert re.search(rf"compiled +float32, {threads}, 0\.\d+ GiB|[\d.]+ MiB: [\d.]+ ms a step, eager [\d.]+ ms", shown)
    (record,) = llmcli("models", "show", "small", "--format", "json").json()["compiled"]
    assert (record["quant"], record["dtype"], record["rows"], record["in_use"]) == ("none", "float32", 1, True)
    assert record["compiled_ms"] < record["eager_ms"]
    assert record["problem"] is None
    again = llmcli("models", "compile", "small")
    assert (again.code, "compiling" in again.err, len(made)) == (0, False, 1)


def test_packages_that_are_not_in_use_are_shown_as_such(llmcli, model, made):
    llmcli("models", "add", "small", model)
    llmcli("models", "compile", "small")
    (file,) = store.root().glob(f"*/*/{store.META}")
    meta = json.loads(file.read_text())
    file.write_text(json.dumps(meta | {"versions": {"torch": "1.0"}}))
    assert "not in use, made by torch 1.0" in llmcli("models", "show", "small").out
    assert llmcli("models", "show", "small", "--format", "json").json()["compiled"][0]["in_use"] is False
    file.write_text(json.dumps(meta | {"reason": "RuntimeError: no"}))
    told = "compiling failed: RuntimeError: no; `llmcli models compile` tries again"
    assert told in " ".join(llmcli("models", "show", "small").out.split())
    file.write_text("garbage")
    assert "compiled" not in llmcli("models", "show", "small").out


def test_models_compile_tries_again_what_failed(llmcli, model, made):
    assert llmcli("models", "compile", model).code == 0
    (file,) = store.root().glob(f"*/*/{store.META}")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"reason": "RuntimeError: no"}))
    bench = llmcli("bench", model, *BENCH)
    assert (
        "notice: decode is eager: compiling failed: RuntimeError: no; `llmcli models compile` tries again"
        in bench.err.splitlines()
    )
    assert len(made) == 1
    assert llmcli("models", "compile", model).code == 0
    assert len(made) == 2


def test_models_compile_of_what_cannot_be_compiled_fails(llmcli, model, monkeypatch, tmp_path):
    monkeypatch.setattr(launch, "compile_now", lambda recipe: None)
    ran = llmcli("models", "compile", model)
    assert ran.code == 1
    assert ran.err.splitlines()[-2:] == [
        "error: model: no compiled step is in use",
        "  The line above says why.",
    ]
    ran = llmcli("models", "compile", recurrent(tmp_path / "mamba"))
    assert ran.code == 1
    assert ran.err.splitlines()[-2:] == [
        "error: mamba cannot be compiled: mamba models keep more than K and V, or keep it in another way",
        "  It runs with --decode eager.",
    ]
    assert llmcli("models", "compile", model, "--batch", 0).code == 2


def recurrent(folder):
    tiny_model("mamba", vocab_size=258, state_size=4).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


# Where nothing is compiled


@pytest.mark.parametrize("spelt", ["fp8", "FP8_e4m3"])
def test_what_was_asked_for_and_cannot_be_is_eager_with_one_notice(llmcli, model, tiny, nothing_starts, spelt):
    quantized = ("--kv-dtype", spelt)
    for command, more in (("chat", ("--json", *ASK)), ("bench", ("--format", "json", *BENCH))):
        ran = llmcli(command, tiny, *more, *quantized, "--decode", "compiled")
        assert ran.code == 0, ran.err
        assert ran.err.count("decode is eager") == 1
        assert "notice: --decode compiled: K and V are quantized; decode is eager" in ran.err.splitlines()
        assert ran.json()["model"]["decode_path"] == "eager"
        assert "is eager" not in llmcli(command, tiny, *more, *quantized).err


def test_speculation_is_served_without_a_compiled_step(llmcli, model, tiny, nothing_starts):
    ran = llmcli("bench", tiny, *BENCH, "--speculate", "ngram", "--format", "json")
    assert (ran.code, "compil" in ran.err) == (0, False)


def test_a_recurrent_model_is_eager_with_one_notice(llmcli, model, nothing_starts, tmp_path):
    ran = llmcli("chat", recurrent(tmp_path / "mamba"), *ASK, "--decode", "compiled")
    assert ran.code == 0, ran.err
    assert ran.err.count("decode is eager") == 1


@pytest.mark.parametrize("flags", [(), ("--decode", "compiled")])
def test_one_question_compiles_nothing_and_takes_what_exists(llmcli, model, compiled_model, nothing_starts, flags):
    ran = llmcli("chat", model, *ASK, "--json", *flags)
    assert (ran.code, ran.json()["model"]["decode_path"]) == (0, "eager")
    command = f"llmcli models compile {model} --quant none --dtype float32"
    told = f"notice: decode is eager: no step has been compiled yet; `{command}` compiles one"
    assert (told in ran.err.splitlines()) == bool(flags)
    assert ran.err.count("decode is eager") == len(flags) // 2
    assert not store.root().exists()
    compiled.put(compiled_model[1])
    ran = llmcli("chat", model, *ASK, "--json", *flags)
    assert (ran.code, ran.json()["model"]["decode_path"]) == (0, "compiled")
    assert "notice: decode" not in ran.err


def test_without_a_compiler_decode_is_eager_and_that_is_said_once(llmcli, model, no_compiler):
    ran = llmcli("bench", model, *BENCH, "--format", "json")
    assert ran.json()["model"]["decode_path"] == "eager"
    assert [line for line in ran.err.splitlines() if "eager" in line] == [NO_COMPILER]
    failed = llmcli("models", "compile", model)
    assert failed.code == 1
    assert failed.err.splitlines() == [
        "error: nothing can be compiled: there is no C++ compiler here (g++ or clang++)",
        "  Decode is eager without.",
    ]


def test_a_compiler_that_is_named_and_not_there(llmcli, model, nothing_starts, monkeypatch):
    monkeypatch.setenv("CXX", "/nonexistent")
    assert "notice: decode is eager: CXX=/nonexistent is no C++ compiler" in llmcli("bench", model, *BENCH).err


def test_compiling_can_be_switched_off(llmcli, model, nothing_starts, monkeypatch):
    monkeypatch.setenv("LLMCLI_COMPILE", "off")
    ran = llmcli("bench", model, *BENCH, "--format", "json")
    assert (ran.code, "eager" in ran.err) == (0, False)
    assert ran.json()["model"]["decode_path"] == "eager"
    ran = llmcli("bench", model, *BENCH, "--decode", "compiled")
    told = "notice: --decode compiled: LLMCLI_COMPILE is off, and no step has been compiled before; decode is eager"
    assert [line for line in ran.err.splitlines() if "decode is eager" in line] == [told]
    ran = llmcli("models", "compile", model)
    assert ran.code == 2
    assert ran.err.startswith("error: LLMCLI_COMPILE is off: nothing is compiled\n")
