"""Which device, and how much memory it has left."""

import gc
import shutil

import psutil
import torch

from llmcli.errors import UsageError
from llmcli.load_rules import parse_device


def resolve_device(text: str) -> torch.device:
    """`auto`, `cpu`, `mps`, `cuda` or `cuda:N` to a device that is there. Raises UsageError when it is not."""
    kind, index = parse_device(text)
    if kind == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda:0")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    if kind == "cuda":
        return _cuda(index)
    if kind == "mps" and not torch.backends.mps.is_available():
        raise UsageError("--device mps: this machine has no Metal device", "Use --device cpu or auto.")
    return torch.device(kind)


def _cuda(index: int) -> torch.device:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if index < count:
        return torch.device("cuda", index)
    found = f"torch {torch.__version__} sees {count} CUDA device{'' if count == 1 else 's'}"
    raise UsageError(f"--device cuda:{index} is not there: {found}", "Use --device auto, or see `nvidia-smi`.")


def idle_gpu_notice(device: torch.device) -> str | None:
    """A notice when the CPU is used although an NVIDIA GPU seems to be there, with the cure."""
    if device.type != "cpu" or torch.cuda.is_available() or shutil.which("nvidia-smi") is None:
        return None
    if torch.version.cuda is None:
        return f"running on CPU: torch {torch.__version__} is built without CUDA; install a CUDA build of torch"
    return "running on CPU: torch finds no usable GPU; `nvidia-smi` shows whether the driver is well"


def free_bytes(device: torch.device) -> int:
    """Memory that a new allocation on `device` may take, in bytes."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def release(device: torch.device) -> None:
    """Give memory that nothing refers to any more back to the device, for all who allocate there."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()


def reset_peak(device: torch.device) -> None:
    """Start a new peak measurement where the device has one."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_bytes(device: torch.device) -> int | None:
    """CUDA: the most memory allocated since `reset_peak`; elsewhere the process's peak resident size."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    memory = psutil.Process().memory_info()
    if hasattr(memory, "peak_wset"):
        return int(memory.peak_wset)
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)


def name(device: torch.device) -> str:
    """`cpu`, `mps`, or a CUDA device with its product name."""
    return f"{device} ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else str(device)
