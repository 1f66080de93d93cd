"""What `--dtype` and `--device` may be: one check for the flags and for the engine."""

import re

from llmcli.errors import UsageError

DTYPES = {
    "auto": "auto",
    "float32": "float32",
    "fp32": "float32",
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
    "float16": "float16",
    "fp16": "float16",
}
"""What `--dtype` may be -> torch's name of it; `auto` is the checkpoint's."""

_DEVICE = re.compile(r"(auto|cpu|mps|cuda)(?:(?<=cuda):(\d+))?")


def parse_dtype(text: str) -> str:
    """Torch's name of a dtype, or `auto`. Raises UsageError for a name that is not known."""
    if text not in DTYPES:
        raise UsageError(f"--dtype {text!r} is not known", f"Allowed: {', '.join(DTYPES)}.")
    return DTYPES[text]


def parse_device(text: str) -> tuple[str, int]:
    """The kind of device (auto, cpu, mps, cuda) and its index. Raises UsageError for what is not known."""
    match = _DEVICE.fullmatch(text)
    if not match:
        raise UsageError(f"--device {text!r} is not known", "Allowed: auto, cpu, mps, cuda, cuda:N.")
    return match[1], int(match[2] or 0)
