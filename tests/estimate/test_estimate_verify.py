"""`--verify`: a cache that is really built, beside the estimate."""

import json
from types import SimpleNamespace

import pytest
from gguf_writer import llama
from tiny import tiny
from tiny_mixture import tiny as tiny_mixture

from llmcli.cli.app import run
from llmcli.cli.size_flags import Question
from llmcli.cli.verifying import refuse_verifying
from llmcli.engine import measure_cache
from llmcli.errors import UsageError
from llmcli.estimate.engines.transformers import TRANSFORMERS
from llmcli.estimate.request import SizeRequest


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "llama.json"
    path.write_text(json.dumps(tiny("llama", head_dim=16, dtype="bfloat16")))
    return str(path)


def verified(capsys, *arguments) -> tuple[dict, str]:
    assert run(["estimate-kv", *arguments, "--context", "9,20", "--batch", "1,2", "--format", "json"]) == 0
    captured = capsys.readouterr()
    return json.loads(captured.out), captured.err


@pytest.mark.parametrize(
    ("flags", "how"),
    [
        (["--verify"], "meta"),
        (["--verify", "meta"], "meta"),
        (["--verify=real"], "real"),
        (["--verify", "real"], "real"),
    ],
)
def test_the_real_cache_equals_the_estimate(capsys, config, flags, how):
    data, said = verified(capsys, config, *flags)
    assert [(part["how"], part["context"], part["batch"]) for part in data["verified"]] == [
        (how, context, batch) for batch in (1, 2) for context in (9, 20)
    ]
    for part, row in zip(data["verified"], data["rows"], strict=True):
        assert part["difference_bytes"] == 0
        assert part["measured_bytes"] == part["estimated_bytes"] == row["kv_bytes"]
        assert part["measured_peak_bytes"] == part["estimated_peak_bytes"] == row["kv_peak_bytes"]
        assert part["measured_params"] == part["estimated_params"] == data["model"]["params"]
    assert "loads torch" in said


def test_the_peak_is_that_of_a_prefill_in_one_piece_whatever_chunks_are_asked_for(capsys, config):
    data, _ = verified(capsys, config, "--verify", "--prefill-chunk", "4")
    assert all(part["measured_peak_bytes"] == part["estimated_peak_bytes"] for part in data["verified"])


def test_a_model_may_stand_behind_the_bare_flag(capsys, config):
    data, _ = verified(capsys, "--verify", config)
    assert data["model"]["name"] == "llama"
    assert len(data["verified"]) == 4


def test_tables_of_several_models_say_it_on_stderr(capsys, tmp_path, config):
    other = tmp_path / "other.json"
    other.write_text(json.dumps(tiny("llama", head_dim=16, dtype="float32")))
    assert run(["estimate-kv", config, str(other), "--verify", "--context", "9", "--format", "csv"]) == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 3
    assert captured.err.count("loads torch") == 1
    for name in ("llama", "other"):
        assert f"{name}: measured (meta) at context 9, batch 1: cache" in captured.err


def test_nothing_is_built_before_all_models_can_be_sized(capsys, tmp_path, config):
    file = llama(context_length=256).write(tmp_path / "model.gguf")
    assert run(["estimate-kv", config, str(file), "--verify"]) == 2
    assert "loads torch" not in capsys.readouterr().err


def test_a_difference_is_shown_and_warned_about(capsys, monkeypatch, config):
    real = measure_cache.held_bytes
    monkeypatch.setattr(measure_cache, "held_bytes", lambda cache: real(cache) + 8)
    data, _ = verified(capsys, config, "--verify")
    assert {part["difference_bytes"] for part in data["verified"]} == {8}
    assert data["warnings"] == ["4 of 4 caches that were built differ from the estimate"]


def test_a_real_model_is_not_built_where_its_weights_as_they_are_built_do_not_fit(capsys, monkeypatch, config):
    data, _ = verified(capsys, config, "--kv-dtype", "float32")
    memory = SimpleNamespace(available=4 * data["model"]["params"])
    monkeypatch.setattr(measure_cache.psutil, "virtual_memory", lambda: memory)
    asked = ["--context", "1", "--kv-dtype", "float32", "--overhead", "0"]
    assert run(["estimate-kv", config, *asked, "--verify", "real"]) == 4
    assert "building it takes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("engine", "request_", "word"),
    [
        ("llama.cpp", SizeRequest(), "not that of llama.cpp"),
        ("transformers", SizeRequest(kv_dtype="int4"), "not of int4"),
    ],
)
def test_only_floats_that_transformers_keeps_can_be_compared(engine, request_, word):
    with pytest.raises(UsageError, match=word):
        refuse_verifying(Question(SimpleNamespace(name=engine), request_))
    refuse_verifying(Question(TRANSFORMERS, SizeRequest(kv_dtype="bf16")))


def test_a_gguf_file_has_nothing_to_build_from(capsys, tmp_path):
    file = llama(context_length=256).write(tmp_path / "model.gguf")
    assert run(["estimate-kv", str(file), "--verify"]) == 2
    captured = capsys.readouterr()
    assert "needs a config.json" in captured.err
    assert "loads torch" not in captured.err


def test_a_mixture_that_names_no_dtype_is_verified_in_float32(capsys, tmp_path):
    path = tmp_path / "mixture.json"
    path.write_text(json.dumps(tiny_mixture("mixtral")))
    assert run(["estimate-kv", str(path), "--context", "40", "--verify", "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["kv"]["dtype"] == "float32"
    assert [proof["difference_bytes"] for proof in answer["verified"]] == [0]
