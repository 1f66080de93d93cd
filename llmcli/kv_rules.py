"""What `--kv-dtype` and `--kv-offload` may be, alone and together: one check for flags, estimate and engine."""

import importlib.util

from llmcli.errors import UsageError

FLOATS = ("float32", "bfloat16", "float16")

QUANTIZED = ("fp8", "int8", "int4")
"""Formats of transformers' QuantizedCache: 8-bit floating point (E4M3), groups of 8-bit and of 4-bit numbers."""

SPARE_ROWS = 512
"""Rows that a sliding window's buffer has beyond the window: so many steps pass until it is moved back to its start."""

_SPELLINGS = {
    "fp32": "float32",
    "f32": "float32",
    "fp16": "float16",
    "f16": "float16",
    "bf16": "bfloat16",
    "fp8_e4m3": "fp8",
    "float8_e4m3fn": "fp8",
    "q8": "int8",
    "q4": "int4",
}
_PACKAGES = {"hqq": "hqq", "quanto": "optimum.quanto"}
_BACKENDS = {"fp8": ("fp8",), "int8": ("hqq",), "int4": ("quanto", "hqq")}
"""Format -> names that QuantizedCache gives to those who can pack it, the first choice first."""


def kv_name(text: str) -> str:
    """A format's name without the ways of writing it: `BF16`, `torch.bfloat16` and `bf16` are bfloat16."""
    name = text.strip().lower().removeprefix("torch.")
    return _SPELLINGS.get(name, name)


def parse_kv_dtype(text: str) -> str:
    """`auto`, torch's name of a float, or one of QUANTIZED. Raises UsageError for a name that is not known."""
    name = kv_name(text)
    if name not in {"auto", *FLOATS, *QUANTIZED}:
        raise UsageError(
            f"--kv-dtype {text[:40]!r} is nothing that transformers keeps a cache in",
            "Allowed: auto, fp8, int8, int4; or float32, bfloat16, float16 where the model runs in it.",
        )
    return name


def kv_backend(name: str) -> str:
    """Who packs a format of QUANTIZED, as QuantizedCache calls it. Raises UsageError where it is not installed."""
    for backend in _BACKENDS[name]:
        if backend not in _PACKAGES or _installed(_PACKAGES[backend]):
            return backend
    others = "" if name == "int8" else " or optimum-quanto"
    raise UsageError(
        f"--kv-dtype {name} is packed by hqq{others}, which is not installed here",
        "pip install hqq; or take --kv-dtype fp8, which needs nothing more.",
    )


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it is not there
        return False


def refuse_kv(kv_dtype: str, *, offload: bool, drafting: bool) -> None:
    """Raise UsageError for a KV dtype that is not known or not installed, or that does not go with other settings.

    offload: `--kv-offload`. drafting: tokens are speculated on, so the cache has to forget those that are refused.
    """
    name = parse_kv_dtype(kv_dtype)
    if name not in QUANTIZED:
        return
    kv_backend(name)
    if offload:
        raise UsageError(
            f"--kv-offload with --kv-dtype {name} is not possible: transformers offloads unquantized caches only",
            "Leave one of them out.",
        )
    if drafting:
        raise UsageError(
            f"--kv-dtype {name} does not go with --speculate or --draft: "
            "a quantized cache cannot forget drafted tokens that were refused",
            "Leave one of them out.",
        )


def refuse_float(kv_dtype: str, dtype: str) -> None:
    """Raise UsageError where K and V are to be floats of another kind than `dtype` (torch's name) of the model."""
    name = parse_kv_dtype(kv_dtype)
    if name in FLOATS and name != dtype:
        raise UsageError(
            f"--kv-dtype {name} is not possible: transformers keeps K and V in {dtype}, in which the model runs",
            f"Use --dtype {name}, or --kv-dtype fp8 for a smaller cache.",
        )
