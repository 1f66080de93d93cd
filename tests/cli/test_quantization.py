"""`--quant`: what each choice makes of a model, and what is refused before anything loads."""

import shutil

import pytest
import torch
from tiny_models import byte_tokenizer, tiny_model
from transformers import AutoModelForCausalLM

from llmcli.cli.options import ModelOptions, Quant, check_model_options
from llmcli.engine.quantize import settings_for
from llmcli.errors import UsageError

ASK = ("-p", "hi", "--max-new-tokens", 3, "--device", "cpu")
DTYPES = ("auto", "float32", "bfloat16", "float16")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("quant", list(Quant))
def test_each_combination_on_cpu_works_or_is_refused_before_loading(llmcli, tiny, quant, dtype):
    ran = llmcli("chat", tiny, *ASK, "--json", "--quant", quant.value, "--dtype", dtype)
    if quant is Quant.int8 and dtype in {"float32", "bfloat16"}:
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.splitlines() == [
            f"error: --quant int8 with --dtype {dtype} is not possible: LLM.int8 multiplies in float16",
            f"  Leave --dtype out, or take --quant nf4, which runs in {dtype}.",
        ]
        return
    assert ran.code == 0, ran.err
    record = ran.json()
    auto = "float16" if quant is Quant.int8 else "float32"  # the checkpoint's
    assert record["model"]["dtype"] == (auto if dtype == "auto" else dtype)
    assert record["model"]["quant"] == ("none" if quant is Quant.auto else quant.value)
    assert record["tokens"]["generated"] == 3
    assert ("bitsandbytes" in record["versions"]) == (quant in {Quant.int8, Quant.nf4, Quant.fp4})


@pytest.mark.parametrize("quant", ["int8", "nf4", "fp4"])
def test_quantization_keeps_the_parameters_shrinks_the_weights_and_prints_nothing(llmcli, tiny, quant):
    plain = llmcli("chat", tiny, *ASK, "--json", "--dtype", "float16").json()["model"]
    ran = llmcli("chat", tiny, *ASK, "--json", "--dtype", "float16", "--quant", quant, "--stats", "off")
    model = ran.json()["model"]
    assert model["params"] == plain["params"]
    assert model["weight_bytes"] < plain["weight_bytes"]
    loaded, cut = ran.err.splitlines()
    assert f" · {quant} (float16) · " in loaded
    assert cut.startswith("notice: the answer was cut")


def test_layers_that_are_no_linear_ones_are_quantized_where_bitsandbytes_can(llmcli, tmp_path):
    tiny_model("gpt2", vocab_size=258, n_embd=64, n_inner=128).save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    for quant in ("int8", "nf4"):
        model = llmcli("chat", tmp_path, *ASK, "--json", "--quant", quant).json()["model"]
        assert (model["quant"], model["architecture"]) == (quant, "GPT2LMHeadModel")


def test_experts_that_stay_as_they_are_are_told(llmcli, tmp_path):
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "moe_intermediate_size": 128}
    tiny_model("qwen3_moe", vocab_size=258, num_experts=16, **sizes).save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    told = llmcli("chat", tmp_path, *ASK, "--quant", "nf4").err
    assert "notice: --quant nf4 reaches 3 % of the weights" in told
    assert "reaches" not in llmcli("chat", tmp_path, *ASK).err


@pytest.mark.parametrize("device", ["mps", "auto", "cpu", "cuda"])
def test_int8_is_refused_on_metal_alone(device):
    if device != "mps":
        assert check_model_options(ModelOptions("int8", "auto", device)).quant == "int8"
        return
    with pytest.raises(UsageError, match="no int8 kernels for Metal"):
        check_model_options(ModelOptions("int8", "auto", device))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"device": "cuda"}, "--quant int4 does not run on cuda"),
        ({"device": "mps"}, "--quant int4 does not run on mps"),
        ({"spread": True}, "--device-map auto with --quant int4 is not possible"),
    ],
)
def test_int4_is_refused_where_no_cpu_runs_it(more, said):
    with pytest.raises(UsageError, match=said):
        check_model_options(ModelOptions("int4", **more))


def test_int4_is_refused_where_several_processes_share_a_model(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="--quant int4 does not go with tensor parallelism"):
        check_model_options(ModelOptions("int4"))


def test_without_bitsandbytes_the_refusal_says_so(llmcli, tiny, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    ran = llmcli("chat", tiny, *ASK, "--quant", "nf4")
    assert ran.code == 2
    assert ran.err.startswith("error: --quant nf4 is done by bitsandbytes, which is not installed here\n")
    assert "pip" not in ran.err


@pytest.mark.parametrize("quant", ["int8", "nf4", "fp4"])
def test_a_checkpoint_of_bitsandbytes_runs_as_it_is_and_in_no_other_way(llmcli, tiny, tmp_path, quant):
    shutil.copytree(tiny, tmp_path, dirs_exist_ok=True)
    settings = settings_for(quant, torch.float16)
    AutoModelForCausalLM.from_pretrained(
        tiny, dtype=torch.float16, quantization_config=settings, device_map={"": "cpu"}
    ).save_pretrained(tmp_path)
    made = llmcli("chat", tiny, *ASK, "--json", "--quant", quant, "--dtype", "float16").json()
    for choice in ("auto", "none", quant):
        stored = llmcli("chat", tmp_path, *ASK, "--json", "--quant", choice)
        assert stored.code == 0, stored.err
        for key in ("quant", "dtype", "params", "weight_bytes"):
            assert stored.json()["model"][key] == made["model"][key]
        assert stored.json()["text"] == made["text"]
    other = "int8" if quant == "nf4" else "nf4"
    ran = llmcli("chat", tmp_path, *ASK, "--quant", other)
    assert ran.code == 2
    assert f"--quant {other}: the weights of {tmp_path.name} are stored in {quant} already" in ran.err
