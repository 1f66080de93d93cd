"""`--quant int4`: what it makes of a model, what is said of it, and where it is refused."""

import pytest
from tiny_models import byte_tokenizer, tiny_model

ASK = ("-p", "a message of more than seventeen tokens", "--max-new-tokens", 3)


@pytest.mark.parametrize("dtype", ["auto", "float32", "bfloat16", "float16"])
def test_it_runs_in_every_dtype_with_all_parameters_and_a_third_to_a_half_of_the_bytes(llmcli, tiny, dtype):
    plain = llmcli("chat", tiny, *ASK, "--json", "--dtype", dtype, "--quant", "none").json()
    ran = llmcli("chat", tiny, *ASK, "--json", "--dtype", dtype, "--quant", "int4", "--decode", "eager")
    assert ran.code == 0, ran.err
    record = ran.json()
    assert record["tokens"]["generated"] == 3
    name = "float32" if dtype == "auto" else dtype  # the checkpoint's
    assert (record["model"]["quant"], record["model"]["dtype"]) == ("int4", name)
    assert record["model"]["params"] == plain["model"]["params"]
    assert 0.2 < record["ceiling"]["bytes_per_step"] / plain["ceiling"]["bytes_per_step"] < 0.6
    assert "bitsandbytes" not in record["versions"]
    assert f" · int4 ({name}) · " in ran.err


@pytest.mark.parametrize("command", ["chat", "bench"])
@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_it_is_refused_beside_a_device_that_has_no_kernels_for_it(llmcli, tiny, command, device):
    ran = llmcli(command, tiny, "--device", device, "--quant", "int4")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        f"error: --quant int4 does not run on {device}: its kernels are for the CPU",
        "  Use --quant nf4, or --device cpu.",
    ]


def saved(folder, **sizes):
    tiny_model("llama", vocab_size=258, **sizes).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


def test_a_model_whose_sizes_do_not_divide_is_refused_in_one_line(llmcli, tmp_path):
    ran = llmcli("chat", saved(tmp_path / "odd", hidden_size=48), *ASK, "--quant", "int4")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.splitlines() == [
        f"error: {tmp_path / 'odd'}: --quant int4 would change nothing: 'llama' has no layers that it quantizes",
        "  Load it with --quant none.",
    ]


def test_layers_whose_sizes_do_not_divide_stay_and_that_is_told(llmcli, tmp_path):
    ran = llmcli("chat", saved(tmp_path / "odd", hidden_size=64, intermediate_size=1000), *ASK, "--quant", "int4")
    assert ran.code == 0
    assert "notice: --quant int4 reaches 8 % of the weights: it takes linear layers, not embeddings" in ran.err
