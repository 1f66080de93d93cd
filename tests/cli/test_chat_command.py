"""`llmcli chat` in this process, on a tiny model."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, OpenAIGPTConfig

RECORD = {
    "schema": None, "id": None, "started_at": None, "command": None, "engine": None,
    "model": {"name", "source", "revision", "architecture", "params", "active_params", "quant", "dtype", "weight_bytes",
              "device", "attention", "decode_path", "context_limit"},
    "tokens": {"prompt", "cached", "evaluated", "truncated", "generated", "steps", "drafted", "accepted",
               "cache_break_at", "batch"},
    "seconds": {"load_wait", "queue", "template", "tokenize", "network", "prefill", "first_sample", "unattributed",
                "ttft", "first_text", "decode", "tail", "total", "detokenize", "render"},
    "rates": {"prompt_eval_tps", "generation_tps", "chars_per_second"},
    "itl_ms": {"p50", "p95", "p99", "max"},
    "phases": {"shares", "dominant"},
    "ceiling": {"prefill_tps", "generation_tps", "bytes_per_step", "flops_per_token", "mbu", "mfu", "bound"},
    "cache": {"source", "age_s", "miss_reason"},
    "memory": {"peak_bytes", "kv_bytes"},
    "finish_reason": None, "sampling": None, "versions": None, "error": None, "text": None,
}  # fmt: skip


def test_the_answer_is_all_of_stdout_and_the_phase_line_is_on_stderr(llmcli, tiny):
    ran = llmcli("chat", tiny, "-p", "hi", "--max-new-tokens", 8)
    assert ran.code == 0
    assert ran.out.endswith("\n")
    assert "tok/s" not in ran.out
    assert "\x1b" not in ran.out + ran.err
    line = next(line for line in ran.err.splitlines() if line.startswith("prompt "))
    assert "prefill" in line
    assert "decode 7 tok" in line


def test_stream_no_stream_and_json_give_the_same_answer(llmcli, tiny):
    asked = ("chat", tiny, "-p", "hi", "--max-new-tokens", 12)
    streamed, whole, record = llmcli(*asked), llmcli(*asked, "--no-stream"), llmcli(*asked, "--json")
    assert streamed.out == whole.out
    text = record.json()["text"]
    assert streamed.out == text + ("" if text.endswith("\n") else "\n")


def test_the_record_has_every_field_and_adds_up(llmcli, tiny):
    record = llmcli("chat", tiny, "-p", "hi", "-s", "be kind", "--max-new-tokens", 9, "--json").json()
    assert set(record) == set(RECORD)
    for name, fields in RECORD.items():
        if fields:
            assert set(record[name]) == fields, name
    assert set(record["phases"]["shares"]) == {"prefill", "decode", "other"}
    assert set(record["ceiling"]["flops_per_token"]) == {"prefill", "decode"}
    assert record["schema"] == "llmcli.request/1"
    assert record["started_at"].endswith("Z")
    tokens, seconds = record["tokens"], record["seconds"]
    assert tokens["prompt"] == tokens["cached"] + tokens["evaluated"]
    assert seconds["ttft"] + seconds["decode"] + seconds["tail"] == pytest.approx(seconds["total"], rel=1e-6)
    parts = ("queue", "template", "tokenize", "network", "prefill", "first_sample", "unattributed")
    assert sum(seconds[part] for part in parts) == pytest.approx(seconds["ttft"], rel=1e-6)
    assert record["sampling"]["origins"]["max_new_tokens"] == "flag"


def test_piped_stdin_is_the_prompt(llmcli, tiny, tmp_path):
    piped = tmp_path / "prompt.txt"
    piped.write_text("hi\n")
    asked = ("chat", tiny, "--max-new-tokens", 8)
    assert llmcli(*asked, stdin=piped).out == llmcli(*asked, "-p", "hi").out


def test_a_seed_repeats_the_answer(llmcli, tiny):
    asked = ("chat", tiny, "-p", "hi", "--temperature", "2", "--max-new-tokens", 12, "--json")
    first, again = (llmcli(*asked, "--seed", 5).json()["text"] for _ in range(2))
    drawn = llmcli(*asked).json()["sampling"]["seed"]
    assert first == again
    assert isinstance(drawn, int)


def test_explain_defines_every_figure_and_stats_off_shows_none(llmcli, tiny):
    explained = llmcli("chat", tiny, "-p", "hi", "--max-new-tokens", 4, "--explain").err
    for word in ("load_wait", "queue", "prefill", "ttft", "generation_tps", "(n-1) ÷ decode = 3 ÷", "verdict"):
        assert word in explained
    loaded, notice = llmcli("chat", tiny, "-p", "hi", "--max-new-tokens", 4, "--stats", "off").err.splitlines()
    assert f"from {tiny}" in loaded
    assert notice == "notice: the answer was cut at 4 tokens; --max-new-tokens N allows more"


def test_nf4_runs_on_cpu_and_says_what_it_is(llmcli, tiny):
    plain = llmcli("chat", tiny, "-p", "hi", "--max-new-tokens", 3, "--json").json()["model"]
    model = llmcli("chat", tiny, "-p", "hi", "--max-new-tokens", 3, "--json", "--quant", "nf4").json()["model"]
    assert (model["quant"], model["params"]) == ("nf4", plain["params"])
    assert model["weight_bytes"] < plain["weight_bytes"]


def test_float32_and_bfloat16_can_be_asked_for(llmcli, tiny):
    for dtype in ("float32", "bf16"):
        model = llmcli("chat", tiny, "-p", "hi", "--max-new-tokens", 2, "--json", "--dtype", dtype).json()["model"]
        assert model["dtype"] == {"bf16": "bfloat16"}.get(dtype, dtype)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("-p", "x", "--temperature", "-1"), 2, "--temperature -1 is not allowed"),
        (("-p", "x", "--temperature", "nan"), 2, "--temperature"),
        (("-p", "x", "--top-p", "0"), 2, "--top-p 0"),
        (("-p", "x", "--repetition-penalty", "0"), 2, "--repetition-penalty 0"),
        (("-p", "x", "--max-new-tokens", "0"), 2, "--max-new-tokens 0"),
        (("-p", "x", "--seed", "-1"), 2, "--seed -1"),
        (("-p", "x", "--ctx", "0"), 2, "--ctx 0"),
        (("-p", "x", "--stop", ""), 2, "--stop"),
        (("-p", "x", "--dtype", "int3"), 2, "int3"),
        (("-p", "x", "--device", "gpu"), 2, "gpu"),
        (("-p", "x", "--quant", "q9"), 2, "q9"),
        (("-p", "x", "--promt", "y"), 2, "--prompt"),
        (("-p", ""), 2, "empty"),
        (("-p", "   "), 2, "empty"),
        (("-f", "/nope"), 2, "/nope"),
        ((), 2, "there is no question"),
        (("-p", "x" * 300), 2, "325 tokens"),
    ],
)
def test_bad_input_is_refused_in_words(llmcli, tiny, arguments, code, words):
    ran = llmcli("chat", tiny, *arguments)
    assert ran.code == code
    assert words in ran.err
    assert ran.out == ""
    assert "Traceback" not in ran.err
    assert len([line for line in ran.err.splitlines() if line.startswith("error: ")]) == 1


def test_a_misspelt_alias_names_the_nearest(llmcli):
    ran = llmcli("chat", "smollm-135m", "-p", "x")
    assert ran.code == 3
    assert "Did you mean smollm2-135m?" in ran.err


def damaged(tiny, tmp_path, damage):
    copy = tmp_path / "model"
    shutil.copytree(tiny, copy)
    damage(copy)
    return copy


def drop_tensor(path):
    tensors = load_file(path / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})


def widen_config(path):
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"intermediate_size": 96}))


def unknown_type(path):
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"model_type": "brand_new_arch", "architectures": None}))


def edit(file, **values):
    def damage(path):
        content = json.loads((path / file).read_text()) if (path / file).exists() else {}
        (path / file).write_text(json.dumps(content | values))

    return damage


def pack_integers(path):
    tensors = load_file(path / "model.safetensors")
    name = "model.layers.0.mlp.up_proj.weight"
    tensors[name] = tensors[name].to(torch.uint8)
    save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})


def template(text):
    return lambda path: (path / "chat_template.jinja").write_text(text)


def cut(path):
    data = (path / "model.safetensors").read_bytes()
    (path / "model.safetensors").write_bytes(data[:-100])


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda p: (p / "config.json").unlink(), "no config.json"),
        (lambda p: (p / "model.safetensors").unlink(), "no weights"),
        (lambda p: (p / "tokenizer.json").unlink(), "no tokenizer"),
        (lambda p: (p / "tokenizer.json").write_text("{}"), "tokenizer"),
        (lambda p: (p / "config.json").write_text("{"), "config.json"),
        (cut, "model.safetensors"),
        (drop_tensor, "model.layers.1.mlp.up_proj.weight"),
        (widen_config, "another shape"),
        (unknown_type, "brand_new_arch"),
        (pack_integers, "U8 (model.layers.0.mlp.up_proj.weight)"),
        (edit("config.json", num_hidden_layers=2), "config.json says 2 layers, the checkpoint holds more"),
        (edit("config.json", num_hidden_layers=0), "num_hidden_layers = 0"),
        (edit("config.json", num_hidden_layers="2"), "num_hidden_layers = '2'"),
        (edit("config.json", num_hidden_layers=10**9), "num_hidden_layers = 1000000000"),
        (edit("config.json", vocab_size=None), "vocab_size"),
        (edit("config.json", max_position_embeddings=-4), "-4"),
        (edit("config.json", rms_norm_eps="x"), "rms_norm_eps"),
        (edit("config.json", num_attention_heads=0), "config"),
        (edit("config.json", dtype="foo"), "foo"),
        (lambda p: (p / "generation_config.json").write_text("{"), "generation_config.json is no valid JSON"),
        (template("{{ messages[0]['content'] + 1 }}"), "chat template fails"),
        (template("{{ 1/0 }}"), "chat template fails"),
        (template("{% if %}"), "no valid template"),
        (template(""), "no chat template"),
        (template("{# nothing #}"), "empty prompt"),
    ],
)
def test_a_damaged_model_is_refused_with_the_damage_named(llmcli, tiny, tmp_path, damage, words):
    ran = llmcli("chat", damaged(tiny, tmp_path, damage), "-p", "x", "--max-new-tokens", 2)
    assert ran.code == (0 if words == "no chat template" else 3)
    assert words in ran.err
    assert "Traceback" not in ran.err
    assert "fault of llmcli" not in ran.err


def test_a_template_that_refuses_says_why_without_escapes(llmcli, tiny, tmp_path):
    copy = damaged(tiny, tmp_path, template("{{ raise_exception('no \\x1b[2Jsystem role') }}"))
    ran = llmcli("chat", copy, "-p", "x", "-s", "be kind")
    assert ran.code == 2
    assert "no [2Jsystem role" in ran.err
    assert "chat_template.jinja" in ran.err


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"top_k": 50.5}, "top_k = 50.5 is ignored"),
        ({"do_sample": True, "temperature": -1.0}, "temperature = -1.0 is ignored"),
        ({"repetition_penalty": 0.0}, "repetition_penalty = 0.0 is ignored"),
        ({"min_p": 2.0}, "min_p = 2.0 is ignored"),
    ],
)
def test_values_of_generation_config_that_are_none_are_ignored_and_said(llmcli, tiny, tmp_path, values, words):
    copy = damaged(tiny, tmp_path, edit("generation_config.json", **values))
    ran = llmcli("chat", copy, "-p", "x", "--max-new-tokens", 2)
    assert ran.code == 0
    assert words in ran.err


def test_a_list_of_end_ids_ends_the_answer_at_any_of_them(llmcli, tiny, tmp_path):
    full = llmcli("chat", tiny, "-p", "hi", "--max-new-tokens", 6, "--json").json()
    copy = damaged(tiny, tmp_path, edit("generation_config.json", eos_token_id=list(range(258))))
    record = llmcli("chat", copy, "-p", "hi", "--max-new-tokens", 6, "--json").json()
    assert full["tokens"]["generated"] == 6
    assert (record["tokens"]["generated"], record["finish_reason"], record["text"]) == (1, "eos", "")


def test_the_dtype_is_that_of_the_weights_when_the_config_names_none(llmcli, tiny, tmp_path):
    def store_bfloat16(path):
        tensors = {name: tensor.bfloat16() for name, tensor in load_file(path / "model.safetensors").items()}
        save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
        config = json.loads((path / "config.json").read_text())
        del config["dtype"]
        (path / "config.json").write_text(json.dumps(config))

    copy = damaged(tiny, tmp_path, store_bfloat16)
    record = llmcli("chat", copy, "-p", "hi", "--max-new-tokens", 2, "--json").json()
    assert record["model"]["dtype"] == "bfloat16"


def test_a_model_without_state_in_the_cache_is_refused(llmcli, tiny, tmp_path):
    model = AutoModelForCausalLM.from_config(OpenAIGPTConfig(n_layer=2, n_embd=32, n_head=2, vocab_size=258))
    copy = damaged(tiny, tmp_path, lambda p: [(p / n).unlink() for n in ("config.json", "model.safetensors")])
    model.save_pretrained(copy)
    ran = llmcli("chat", copy, "-p", "x")
    assert ran.code == 3
    assert "keep no state" in ran.err


def test_flags_without_effect_are_said(llmcli, tiny):
    ran = llmcli("chat", tiny, "-p", "x", "--max-new-tokens", 2, "--top-p", "0.5", "--seed", 3)
    assert "--top-p, --seed are without effect" in ran.err


def test_the_limit_that_binds_is_named(llmcli, tiny, tmp_path):
    (tmp_path / "models.toml").write_text(f'[models.short]\nsource = "{tiny}"\ncontext = 20\n')
    ran = llmcli("chat", "short", "-p", "x", "--ctx", 200, "--registry", tmp_path / "models.toml")
    assert ran.code == 2
    assert "context 20 (models.toml)" in ran.err
    assert "raise the limit that models.toml sets" in ran.err


def test_bench_needs_no_tokenizer(llmcli, tiny, tmp_path):
    copy = damaged(tiny, tmp_path, lambda p: (p / "tokenizer.json").unlink())
    ran = llmcli("bench", copy, "--prompt-len", 4, "--out-len", 2, "--repeats", 1, "--format", "json")
    assert ran.code == 0
    assert ran.json()["tests"][0]["prompt_len"] == 4


def test_a_fault_of_ours_ends_in_words(llmcli, tiny, monkeypatch):
    monkeypatch.setattr("llmcli.cli.asking.answer", lambda *_a, **_k: 1 / 0)
    ran = llmcli("chat", tiny, "-p", "x")
    assert ran.code == 1
    assert "fault of llmcli" in ran.err
    assert "Traceback" not in ran.err
