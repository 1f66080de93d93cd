"""What a CPU can do: compiled code runs only where it was made."""

import hashlib
import platform
from pathlib import Path

import torch

_LINUX = Path("/proc/cpuinfo")


def cpu_name() -> str:
    """The instructions in use, by torch's name, and a sum over all that the CPU has."""
    sum_ = hashlib.sha256(_features().encode()).hexdigest()[:8]
    return f"{torch.backends.cpu.get_cpu_capability()} {sum_}"


def _features() -> str:
    try:
        lines = _LINUX.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.lower().startswith(("flags", "features"))), platform.processor())
