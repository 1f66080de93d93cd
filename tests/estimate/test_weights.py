"""Bytes of the weights, against models that transformers and bitsandbytes really load."""

import pytest
import torch
from bitsandbytes.nn import Linear4bit
from tiny import tiny
from transformers import AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig

from llmcli.estimate.config import Config
from llmcli.estimate.from_config import from_config
from llmcli.estimate.weights import weight_bytes

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


def nf4_bytes(model: torch.nn.Module) -> int:
    """Bytes of all parameters, and of the scales that bitsandbytes keeps beside the packed ones."""
    scales = [module.weight.quant_state.absmax for module in model.modules() if isinstance(module, Linear4bit)]
    assert scales
    return sum(tensor.numel() * tensor.element_size() for tensor in (*model.parameters(), *scales))


@pytest.mark.parametrize("model_type", ["llama", "qwen2", "gpt2", "phi3"])
def test_nf4_is_what_bitsandbytes_makes_of_the_model(tmp_path, model_type):
    values = tiny(model_type, pad_token_id=0)
    AutoModelForCausalLM.from_config(AutoConfig.for_model(**values)).save_pretrained(tmp_path)
    settings = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)
    model = AutoModelForCausalLM.from_pretrained(
        tmp_path, dtype=torch.bfloat16, quantization_config=settings, device_map={"": "cpu"}
    )
    facts = from_config(Config("config.json", values))
    assert weight_bytes(facts, "nf4", "bfloat16") == nf4_bytes(model)


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("bfloat16", 2), ("float16", 2)])
def test_unquantized_weights_take_their_dtype(dtype, size):
    facts = from_config(Config("config.json", tiny("llama")))
    assert weight_bytes(facts, "none", dtype) == facts.params * size
