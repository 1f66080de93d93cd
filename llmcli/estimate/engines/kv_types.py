"""The formats that llama.cpp and vLLM keep keys and values in, by the names that people write."""

from collections.abc import Mapping

from llmcli.errors import UsageError
from llmcli.estimate.dtypes import Format

_SPELLINGS = {
    "f32": "float32",
    "fp32": "float32",
    "f16": "float16",
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "float": "float32",
}
_GGML = (
    Format("f32", 4),
    Format("f16", 2),
    Format("bf16", 2),
    Format("q8_0", 34, 32),
    Format("q5_1", 24, 32),
    Format("q5_0", 22, 32),
    Format("q4_1", 20, 32),
    Format("q4_0", 18, 32),
    Format("iq4_nl", 18, 32),
)
_GGML_FLOATS = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
LLAMA_CPP: Mapping[str, Format] = {kind.name: kind for kind in _GGML}
"""ggml's block formats, 32 numbers and their scale in each block (ggml, ggml-common.h)."""

FP8_DS_MLA = Format("fp8_ds_mla", 656, 576)
VLLM: Mapping[str, Format] = {
    "float32": Format("float32", 4),
    "float16": Format("float16", 2),
    "bfloat16": Format("bfloat16", 2),
    "fp8": Format("fp8", 1),
    "fp8_e4m3": Format("fp8_e4m3", 1),
    "fp8_e5m2": Format("fp8_e5m2", 1),
    "fp8_ds_mla": FP8_DS_MLA,
}
"""vLLM's --kv-cache-dtype; fp8_ds_mla is 656 bytes for the 576 numbers of a DeepSeek token."""


def llama_cpp_format(text: str) -> Format:
    """The format that `--kv-dtype` names; `auto` is llama.cpp's own, f16. Raises UsageError for others."""
    name = spelled(text)
    found = LLAMA_CPP.get("f16" if name == "auto" else _GGML_FLOATS.get(name, name))
    if found is None:
        raise _unknown(text, "llama.cpp", LLAMA_CPP)
    return found


def vllm_format(text: str) -> Format:
    """The format that `--kv-dtype` names. Raises UsageError for others."""
    found = VLLM.get(spelled(text))
    if found is None:
        raise _unknown(text, "vllm", VLLM)
    return found


def spelled(text: str) -> str:
    """A format's name without the ways of writing it: `FP16`, `torch.float16` and `f16` are float16."""
    name = text.strip().lower().removeprefix("torch.")
    return _SPELLINGS.get(name, name)


def _unknown(text: str, engine: str, known: Mapping[str, Format]) -> UsageError:
    return UsageError(
        f"--kv-dtype {text!r} is nothing that --engine {engine} keeps a cache in",
        f"Write auto, {', '.join(list(known)[:-1])} or {list(known)[-1]}.",
    )
