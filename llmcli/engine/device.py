"""Which devices, and how much memory they have left."""

import gc
import shutil
from collections.abc import Iterable
from typing import Any

import psutil
import torch

from llmcli.errors import UsageError
from llmcli.load_rules import parse_device
from llmcli.ranks import local_rank


def resolve_device(text: str) -> torch.device:
    """`auto`, `cpu`, `mps`, `cuda` or `cuda:N` to a device that is there. Raises UsageError when it is not."""
    kind, index = parse_device(text)
    if kind == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", local_rank())
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    if kind == "cuda":
        return _cuda(index or local_rank())
    if kind == "mps" and not torch.backends.mps.is_available():
        raise UsageError("--device mps: this machine has no Metal device", "Use --device cpu or auto.")
    return torch.device(kind)


def _cuda(index: int) -> torch.device:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if index < count:
        return torch.device("cuda", index)
    found = f"torch {torch.__version__} sees {count} CUDA device{'' if count == 1 else 's'}"
    raise UsageError(f"--device cuda:{index} is not there: {found}", "Use --device auto, or see `nvidia-smi`.")


def spreads(device: torch.device, *, asked: bool) -> bool:
    """Whether layers are laid out over all devices: where it is asked for, and there are GPUs."""
    return asked and device.type == "cuda"


def devices_of(model: Any) -> tuple[torch.device, ...]:
    """The devices that work on a model, the one that takes ids and returns logits first.

    Of a model that accelerate has laid out over several, this is the first GPU; what lies in main memory is copied to
    it for its turn (accelerate, big_modeling.py, dispatch_model).
    """
    laid_out = getattr(model, "hf_device_map", None) or {}
    found = dict.fromkeys(_device(place) for place in laid_out.values() if place != "disk")
    gpus = [device for device in found if device.type != "cpu"]
    return (*gpus, *(device for device in found if device.type == "cpu")) or (model.device,)


def _device(place: Any) -> torch.device:
    return torch.device("cuda", place) if isinstance(place, int) else torch.device(place)


def idle_gpu_notice(device: torch.device) -> str | None:
    """A notice when the CPU is used although an NVIDIA GPU seems to be there, with the cure."""
    if device.type != "cpu" or torch.cuda.is_available() or shutil.which("nvidia-smi") is None:
        return None
    if torch.version.cuda is None:
        return f"running on CPU: torch {torch.__version__} is built without CUDA; install a CUDA build of torch"
    return "running on CPU: torch finds no usable GPU; `nvidia-smi` shows whether the driver is well"


def free_bytes(devices: Iterable[torch.device]) -> int:
    """Memory that new allocations on `devices` may take together, in bytes."""
    return sum(map(_free, devices))


def _free(device: torch.device) -> int:
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


def peak_bytes(*devices: torch.device) -> int | None:
    """CUDA: the most allocated since `reset_peak`, summed over GPUs; elsewhere the process's peak resident size."""
    if gpus := [device for device in devices if device.type == "cuda"]:
        return sum(int(torch.cuda.max_memory_allocated(device)) for device in gpus)
    memory = psutil.Process().memory_info()
    if hasattr(memory, "peak_wset"):
        return int(memory.peak_wset)
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)


def name(*devices: torch.device) -> str:
    """`cpu`, `mps`, or CUDA devices with their product names: `cuda:0, cuda:1 (2 × NVIDIA L4) + cpu`."""
    alike: dict[str, list[str]] = {}
    for device in devices:
        product = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
        alike.setdefault(product, []).append(str(device))
    return " + ".join(_group(product, names) for product, names in alike.items())


def _group(product: str, names: list[str]) -> str:
    times = f"{len(names)} × " if len(names) > 1 else ""
    return ", ".join(names) + (f" ({times}{product})" if product else "")


def everywhere() -> tuple[torch.device, ...]:
    """All GPUs that torch sees, and the CPU."""
    return (*(torch.device("cuda", i) for i in range(torch.cuda.device_count())), torch.device("cpu"))
