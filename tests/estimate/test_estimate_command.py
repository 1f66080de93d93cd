"""`llmcli estimate-kv` as a person or a program runs it: answers, the JSON contract, refusals and exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from gguf_writer import llama
from tiny import tiny

from llmcli.cli.app import run

KEYS = {"schema", "engine", "engine_version", "model", "kv", "rows", "max_context", "comparison", "mix", "prompt"}
KEYS |= {"gpus", "advice", "decode", "verified", "assumptions", "warnings"}
MODEL_KEYS = {"name", "architecture", "params", "active_params", "vision_params"}
KV_KEYS = {"dtype", "bytes_per_token_short", "bytes_per_token_asymptotic", "fixed_bytes", "exact", "inexact", "layers"}
LAYER_KEYS = {"kind", "count", "bytes_per_token", "max_tokens", "fixed_bytes"}
ROW_KEYS = {"context", "batch", "kv_bytes", "kv_peak_bytes", "kv_allocated_bytes", "weights_bytes", "activation_bytes"}
ROW_KEYS |= {"overhead_bytes", "total_bytes", "vram_bytes", "fits", "headroom_bytes"}


@pytest.fixture
def config(tmp_path) -> Path:
    path = tmp_path / "llama-tiny.json"
    path.write_text(json.dumps(tiny("llama", head_dim=16, torch_dtype="bfloat16")))
    return path


def answer(capsys, *arguments: object) -> dict:
    assert run(["estimate-kv", *map(str, arguments), "--format", "json"]) == 0
    out = capsys.readouterr().out
    return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


def refusal(capsys, code: int, *arguments: object) -> str:
    assert run(["estimate-kv", *map(str, arguments)]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert "fault of llmcli" not in captured.err
    assert 1 <= len(captured.err.strip().splitlines()) <= 2
    return captured.err


def test_the_default_model_needs_neither_network_nor_file(capsys):
    data = answer(capsys, "--context", "4096,8192")
    assert [row["kv_bytes"] for row in data["rows"]] == [23040 * 4096, 23040 * 8192]
    assert data["model"] == {
        "name": "smollm2-135m",
        "architecture": "llama",
        "params": 134515008,
        "active_params": 134515008,
        "vision_params": 0,
    }
    assert any("catalogue" in note for note in data["assumptions"])


@pytest.mark.parametrize("more", [[], ["--vram", "1GiB", "--batch", "1,2", "--quant", "nf4"]])
def test_the_json_contract(capsys, config, more):
    data = answer(capsys, config, *more)
    assert set(data) == KEYS
    assert set(data["model"]) == MODEL_KEYS
    assert set(data["kv"]) == KV_KEYS
    assert [set(layer) for layer in data["kv"]["layers"]] == [LAYER_KEYS]
    assert data["rows"]
    assert all(set(row) == ROW_KEYS for row in data["rows"])
    assert data["schema"] == "llmcli.estimate/1"
    assert (data["engine"], data["engine_version"].split(".")[0]) == ("transformers", "5")
    assert data["kv"]["layers"][0] == {
        "kind": "full_attention",
        "count": 3,
        "bytes_per_token": 128,
        "max_tokens": None,
        "fixed_bytes": 0,
    }
    assert (data["max_context"] is None) == (not more)


def test_contexts_and_batches_make_the_rows(capsys, config):
    data = answer(capsys, config, "--context", "1k,100,1024", "--batch", "1,3", "--kv-dtype", "fp32")
    assert [(row["batch"], row["context"], row["kv_bytes"]) for row in data["rows"]] == [
        (batch, context, 768 * context * batch) for batch in (1, 3) for context in (1024, 100)
    ]
    assert "1024 passes the 256 tokens" in data["warnings"][0]


@pytest.mark.parametrize(
    "flags", [["--ctx", "64,128"], ["--context", "64", "--ctx", "128"], ["--context=64", "--context=128,64"]]
)
def test_contexts_may_be_given_one_by_one_and_as_chat_calls_them(capsys, config, flags):
    assert [row["context"] for row in answer(capsys, config, *flags)["rows"]] == [64, 128]


def test_fits_and_the_longest_context(capsys, config):
    whole = answer(capsys, config, "--context", "100", "--vram", "1GB")
    assert (whole["rows"][0]["fits"], whole["max_context"]) == (True, 256)
    exactly = answer(capsys, config, "--context", "100,101", "--vram", f"{whole['rows'][0]['total_bytes']}B")
    assert [row["fits"] for row in exactly["rows"]] == [True, False]
    assert exactly["rows"][0]["headroom_bytes"] == 0
    assert exactly["rows"][1]["headroom_bytes"] < 0
    assert exactly["max_context"] == 100


def test_a_directory_a_config_and_a_gguf_of_one_model_agree(capsys, tmp_path, config):
    directory = tmp_path / "model"
    directory.mkdir()
    values = tiny("llama", num_hidden_layers=2, head_dim=16, tie_word_embeddings=True, dtype="bfloat16")
    (directory / "config.json").write_text(json.dumps(values))
    gguf = llama(context_length=256).write(tmp_path / "model.gguf")
    answers = [answer(capsys, path, "--context", "100") for path in (directory, directory / "config.json", gguf)]
    assert [one["model"]["name"] for one in answers] == ["model"] * 3
    assert answers[0]["rows"] == answers[1]["rows"] == answers[2]["rows"]
    assert any("dequantized" in note for note in answers[2]["assumptions"])


def test_what_becomes_of_a_gguf_file_depends_on_the_engine(capsys, tmp_path):
    gguf = llama().write(tmp_path / "model.gguf")
    notes = {
        engine: "; ".join(answer(capsys, gguf, "--engine", engine)["assumptions"])
        for engine in ("transformers", "llama.cpp", "vllm")
    }
    assert "llmcli loads a GGUF file dequantized; on disk it is mostly F16" in notes["transformers"]
    assert "weights as stored, mostly F16" in notes["llama.cpp"]
    assert "dequantized" not in notes["llama.cpp"]
    assert "llmcli" not in notes["vllm"]


def test_a_gguf_file_without_weights_says_so(capsys, tmp_path):
    file = llama()
    file.tensors = ()
    data = answer(capsys, file.write(tmp_path / "vocabulary.gguf"), "--context", "100")
    assert data["rows"][0]["kv_bytes"] == 100 * 2 * 2 * 2 * 16 * 2
    (warning,) = data["warnings"]
    assert "holds no weights" in warning


def test_a_checkpoint_tells_the_dtype_that_its_config_leaves_open(capsys, tmp_path):
    import torch
    from safetensors.torch import save_file

    values = tiny("llama", num_hidden_layers=1, head_dim=16, tie_word_embeddings=True)
    (tmp_path / "config.json").write_text(json.dumps(values))
    save_file({"model.embed_tokens.weight": torch.zeros(128, 64, dtype=torch.float16)}, tmp_path / "model.safetensors")
    data = answer(capsys, tmp_path)
    assert data["kv"]["dtype"] == "float16"
    assert "tensors are missing" in data["warnings"][0]


def test_a_quantized_checkpoint_counts_as_it_is_stored(capsys, tmp_path):
    import torch
    from safetensors.torch import save_file

    values = tiny("llama", dtype="bfloat16", quantization_config={"quant_method": "fp8"})
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert any("weights in fp8" in note for note in answer(capsys, tmp_path)["assumptions"])
    save_file({"model.embed_tokens.weight": torch.zeros(999, dtype=torch.uint8)}, tmp_path / "model.safetensors")
    data = answer(capsys, tmp_path)
    assert data["rows"][0]["weights_bytes"] == 999
    assert any("fp8" in note for note in data["assumptions"])


def test_the_registry_limits_the_context(capsys, tmp_path, config):
    registry = tmp_path / "models.toml"
    directory = tmp_path / "m"
    directory.mkdir()
    (directory / "config.json").write_text(config.read_text())
    registry.write_text(f'[models.mine]\nsource = "{directory}"\ncontext = 64\n')
    data = answer(capsys, "mine", "--registry", registry, "--vram", "1GB")
    assert data["model"]["name"] == "mine"
    assert data["max_context"] == 64
    assert [row["context"] for row in data["rows"]] == [64]


def test_a_wheel_that_is_not_pulled_and_not_known_is_not_downloaded(capsys, tmp_path):
    registry = tmp_path / "models.toml"
    registry.write_text(f'[models.other]\nsource = "wheel:nothing==1.0/nothing/m.gguf"\nsha256 = "{"0" * 64}"\n')
    assert "llmcli models pull other" in refusal(capsys, 3, "other", "--registry", registry)


def test_the_table_names_the_formula_and_the_mha_trap(capsys, config):
    assert run(["estimate-kv", str(config), "--vram", "200kB"]) == 0
    captured = capsys.readouterr()
    assert "2 × 3 layers × 2 KV heads × 16 head_dim × 2 bytes = 384 bytes per token" in captured.out
    assert "the MHA formula would say 2 × as much" in captured.out
    assert "no, " in captured.out
    assert "\x1b" not in captured.out


def test_warnings_of_the_table_go_to_stderr(capsys, config):
    assert run(["estimate-kv", str(config), "--context", "9999"]) == 0
    captured = capsys.readouterr()
    assert "9999 passes the 256 tokens" in captured.err
    assert "passes" not in captured.out


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--context", "x"], "--context"),
        (["--context", "0"], "--context"),
        (["--context", "-5"], "--context"),
        (["--context", "4k,,8k"], "--context"),
        (["--context", ""], "--context"),
        (["--context", "1.5"], "--context"),
        (["--context", "9" * 400], "--context"),
        (["--context", "2000000m"], "--context"),
        (["--batch", "0"], "--batch"),
        (["--batch", "1,x"], "--batch"),
        (["--batch", "2k"], "--batch"),
        (["--batch", "²"], "--batch"),
        (["--kv-dtype", "q8_0"], "q8_0"),
        (["--kv-dtype", "int7"], "int7"),
        (["--kv-dtype", ""], "--kv-dtype"),
        (["--context", "1e99"], "--context"),
        (["--context", ",".join(["1"] * 101)], "101 numbers"),
        (["--mix", "1,,2"], "--mix"),
        (["--mix", "0"], "--mix"),
        (["--mix", "1,x"], "--mix"),
        (["--engine", "ollama"], "--engine 'ollama'"),
        (["--quant", "int8", "--dtype", "bf16"], "LLM.int8"),
        (["--quant", "auto"], "--quant"),
        (["--dtype", "float64"], "--dtype"),
        (["--quant", "int3"], "--quant"),
        (["--vram", "24"], "--vram"),
        (["--vram", "0GB"], "--vram"),
        (["--vram", "9" * 400 + "GB"], "--vram"),
        (["--vram", "24 G"], "24GiB (24·2³⁰)"),
        (["--vram", "24GiB,"], "--vram"),
        (["--vram", "24GiB,0GiB"], "--vram"),
        (["--overhead", "-1GiB"], "--overhead"),
        (["--overhead", "1"], "--overhead"),
        (["--prefill-chunk", "0"], "--prefill-chunk"),
        (["--prefill-chunk", "512,1024"], "--prefill-chunk"),
        (["--bandwidth", "0"], "--bandwidth"),
        (["--bandwidth", "400"], "--bandwidth"),
        (["--bandwidth", "400GB/h"], "400GB/s"),
        (["smollm2-135m", "smollm2-135m"], "MODEL smollm2-135m is there twice"),
        (["--plot", "kv.jpg"], ".png, .svg, .pdf"),
        (["--plot", "no-such-folder/kv.png"], "no-such-folder is no directory"),
        (["--verify=maybe"], "'meta', 'real'"),
        (["--prompt-file", "no-such-file.txt"], "--prompt-file"),
        (["--format", "xml"], "--format"),
        (["--context", str(2**40), "--batch", str(2**20), "--dtype", "fp32"], "2**63"),
    ],
)
def test_wrong_usage_is_exit_2(capsys, arguments, word):
    assert word in refusal(capsys, 2, *arguments)


def test_models_that_are_not_there_are_exit_3(capsys, tmp_path):
    assert "smollm2-135m" in refusal(capsys, 3, "smollm-135m")
    assert "none.json" in refusal(capsys, 3, tmp_path / "none.json")
    assert "none.gguf" in refusal(capsys, 3, tmp_path / "none.gguf")
    assert "config.json" in refusal(capsys, 3, tmp_path)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "JSON"),
        (b"{", "JSON"),
        (b"[]", "JSON object"),
        (b'"x"', "JSON object"),
        (b"{}", "model_type is missing"),
        (b"\xff\xfe{}", "UTF-8"),
        (b"\x00" * 10, "JSON"),
        (b"[" * 200_000, "JSON"),
        (b'{"model_type": "llama", "hidden_size": ' + b"9" * 5000 + b"}", "JSON"),
        (b'{"model_type": "llama", "hidden_size": 1e999}', "hidden_size = inf"),
        (b'{"model_type": "llama", "hidden_size": -1}', "hidden_size = -1"),
    ],
)
def test_configs_that_cannot_be_used_are_exit_3(capsys, tmp_path, content, word):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    message = refusal(capsys, 3, path)
    assert word in message
    assert "bad.json" in message


def test_damaged_gguf_files_are_exit_3(capsys, tmp_path):
    path = tmp_path / "m.gguf"
    data = llama().bytes()
    for content in (b"", b"GGUF", b"PK\3\4 zip", data[:100], data[:-500]):
        path.write_bytes(content)
        assert "m.gguf" in refusal(capsys, 3, path)


def test_never_loads_torch(config):
    code = (
        "import sys; from llmcli.cli.app import run; code = run(['estimate-kv', sys.argv[1]]);"
        "heavy = {'torch', 'transformers', 'bitsandbytes', 'accelerate', 'numpy', 'gguf', 'huggingface_hub'};"
        "sys.exit(code or sorted(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, config], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
