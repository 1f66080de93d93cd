"""Bytes of the weights, against models that transformers and bitsandbytes really load."""

import pytest
import torch
from tiny import tiny
from transformers import AutoConfig, AutoModelForCausalLM

import llmcli.engine.loaded
from llmcli.engine.int4 import quantize_int4, unpacked_bytes
from llmcli.engine.quantize import quant_of, settings_for
from llmcli.estimate.config import Config
from llmcli.estimate.from_config import from_config
from llmcli.estimate.weights import unpacked_weights, weight_bytes

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


@pytest.mark.parametrize("model_type", ["llama", "qwen2", "gpt2", "phi3", "olmo"])
@pytest.mark.parametrize(("quant", "dtype"), [("nf4", "bfloat16"), ("fp4", "float32"), ("int8", "float16")])
def test_quantized_weights_are_what_bitsandbytes_makes_of_the_model(tmp_path, model_type, quant, dtype):
    values = tiny(model_type, pad_token_id=0, tie_word_embeddings=model_type == "olmo")
    AutoModelForCausalLM.from_config(AutoConfig.for_model(**values)).save_pretrained(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(
        tmp_path,
        dtype=getattr(torch, dtype),
        quantization_config=settings_for(quant, getattr(torch, dtype)),
        device_map={"": "cpu"},
    )
    facts = from_config(Config("config.json", values))
    assert quant_of(model) == quant
    assert llmcli.engine.loaded.weight_bytes(model) == weight_bytes(facts, quant, dtype)
    unquantized = facts.params * getattr(torch, dtype).itemsize
    assert weight_bytes(facts, quant, dtype) < unquantized
    scales = weight_bytes(facts, quant, dtype) - sum(p.numel() * p.element_size() for p in model.parameters())
    assert scales > 0


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(
    ("model_type", "changes"),
    [
        ("llama", {"hidden_size": 64, "head_dim": 20}),  # 20 · 2 outputs are no multiple of 16
        ("qwen2", {"tie_word_embeddings": True}),
        ("gpt2", {"tie_word_embeddings": True}),
        ("gpt2", {"tie_word_embeddings": False}),
        ("phi3", {}),
        ("mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    ],
)
def test_int4_weights_are_what_the_engine_makes_of_the_model(model_type, changes, dtype):
    values = tiny(model_type, pad_token_id=0, **changes)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**values), dtype=getattr(torch, dtype))
    model.requires_grad_(requires_grad=False)
    facts = from_config(Config("config.json", values))
    quantize_int4(model, unpacked=False)
    assert quant_of(model) == "int4"
    assert llmcli.engine.loaded.weight_bytes(model) == weight_bytes(facts, "int4", dtype)


def test_copies_for_prompts_are_what_the_engine_keeps_unpacked():
    values = tiny("llama")
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**values), dtype=torch.bfloat16)
    facts = from_config(Config("config.json", values))
    quantize_int4(model.requires_grad_(requires_grad=False), unpacked=True)
    assert unpacked_bytes(model) == unpacked_weights(facts, "bfloat16") > 0


def test_the_scales_of_int8_count_once_wherever_bitsandbytes_keeps_them(tmp_path):
    values = tiny("llama")
    AutoModelForCausalLM.from_config(AutoConfig.for_model(**values)).save_pretrained(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(
        tmp_path, dtype=torch.float16, quantization_config=settings_for("int8", torch.float16), device_map={"": "cpu"}
    )
    before = llmcli.engine.loaded.weight_bytes(model)
    with torch.inference_mode():
        model(torch.zeros((1, 1), dtype=torch.long))
    assert llmcli.engine.loaded.weight_bytes(model) == before


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("bfloat16", 2), ("float16", 2)])
def test_unquantized_weights_take_their_dtype(dtype, size):
    facts = from_config(Config("config.json", tiny("llama")))
    assert weight_bytes(facts, "none", dtype) == facts.params * size
