"""Models of a given shape with random weights, made without a download.

A large checkpoint here is a config and one safetensors file of the right length that holds nothing but a header: a
sparse file, which takes no room and reads as zeros. It is loaded as every other model is, by the engine's own code;
then the weights are filled with random numbers where they lie. (Products of zeros would cost less power, and time.)
"""

import json
import math
import struct
from pathlib import Path
from typing import Any

STD = 0.02
LLAMA_8B = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "dtype": "bfloat16",
}
TINY = LLAMA_8B | {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 512,
}
_BYTES = 2
"""Of a bfloat16."""


SMOLLM2_LONG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "vocab_size": 49152,
    "max_position_embeddings": 32768,
    "rope_theta": 100000.0,
    "tie_word_embeddings": True,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "dtype": "bfloat16",
}
"""The shape of SmolLM2-135M, with a context of 32,768 tokens."""


def write_checkpoint(directory: Path, config: dict[str, Any]) -> Path:
    """Config and a checkpoint of zeros that takes no room; returns the directory."""
    import torch

    with torch.device("meta"):
        model = _model(directory, config)
    _write_sparse(directory / "model.safetensors", {name: tuple(p.shape) for name, p in model.named_parameters()})
    return directory


def write_filled(directory: Path, config: dict[str, Any]) -> Path:
    """Config and a checkpoint of random weights, written out; returns the directory."""
    model = _model(directory, config)
    fill(model)
    model.save_pretrained(directory)
    return directory


def _model(directory: Path, config: dict[str, Any]) -> Any:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from llmcli.engine.quiet import quiet

    quiet()
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(directory), dtype=torch.bfloat16)


def _write_sparse(path: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + _BYTES * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def fill(model: Any, seed: int = 0) -> None:
    """Random numbers for all weights, the codes of quantized ones included; their scales fit weights of STD."""
    import torch

    torch.manual_seed(seed)
    with torch.inference_mode():
        for parameter in model.parameters():
            if not parameter.is_floating_point():
                parameter.data.random_()
            elif parameter.dim() > 1:
                parameter.data.normal_(0, STD)
            else:
                parameter.data.fill_(1)
            if (state := getattr(parameter, "quant_state", None)) is not None:
                state.absmax.fill_(3 * STD)  # about as far out as the largest of 64 normal numbers
