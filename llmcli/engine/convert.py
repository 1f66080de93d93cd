"""A GGUF file to a directory of safetensors weights, tokenizer and chat template, once."""

from typing import Any

import psutil
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from llmcli.engine.conversion import Conversion
from llmcli.engine.failures import reason_of, translate
from llmcli.engine.quiet import quiet
from llmcli.errors import LlmcliError, ModelError, OutOfMemory
from llmcli.units import bytes_text


def convert(conversion: Conversion) -> None:
    """Write the model into `conversion.target`.

    Raises OutOfMemory before it starts when memory does not suffice (disk is the caller's to check), ModelError when
    transformers cannot read the file or does not know its architecture.
    """
    quiet()
    free = psutil.virtual_memory().available
    if conversion.memory_bytes > free:
        raise OutOfMemory(
            f"converting {conversion.source.name} takes {bytes_text(conversion.memory_bytes)} of memory, "
            f"{bytes_text(free)} is free",
            "Free memory, take a smaller model, or give a directory of safetensors weights instead of the GGUF.",
        )
    try:
        _write_model(conversion)
        _write_tokenizer(conversion)
    except LlmcliError:
        raise
    except Exception as error:
        ours = translate(error, f"converting {conversion.source.name}", "Free memory first.")
        if isinstance(ours, OutOfMemory):
            raise ours from error
        raise ModelError(
            f"{conversion.source}: this GGUF ({conversion.architecture}) cannot be converted: {reason_of(error)}",
            "Give a directory of safetensors weights of the same model instead.",
        ) from error


def _write_model(conversion: Conversion) -> None:
    source = conversion.source
    model: Any = AutoModelForCausalLM.from_pretrained(
        source.parent,
        gguf_file=source.name,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
        local_files_only=True,
    )
    # The weights are plain bfloat16 by now; save_pretrained refuses while the loader's quantizer is attached.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(conversion.target)


def _write_tokenizer(conversion: Conversion) -> None:
    source = conversion.source
    tokenizer: Any = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name, local_files_only=True)
    tokenizer.save_pretrained(conversion.target)
    if not (conversion.target / "tokenizer.json").is_file():
        raise ModelError(f"{source}: its tokenizer cannot be converted", "Give a safetensors directory instead.")
