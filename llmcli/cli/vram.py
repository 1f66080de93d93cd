"""`--vram auto`: the GPUs of this machine and what is free on them."""

from llmcli.cli.hardware import gpus
from llmcli.errors import UsageError
from llmcli.estimate.report import GpuPart

_INSTEAD = "Write what there is: --vram 24GiB, or one size per GPU: --vram 24GiB,24GiB."


def own_gpus() -> tuple[GpuPart, ...]:
    """The GPUs that programs may use, told by NVML. Raises UsageError when there are none, or none can be told."""
    found = gpus(numbered=False)
    if found is None:
        raise UsageError("--vram auto cannot tell which GPUs CUDA_VISIBLE_DEVICES means", _INSTEAD)
    if not found:
        raise UsageError("--vram auto finds no NVIDIA GPU here", _INSTEAD)
    return tuple(GpuPart(i, place.name, place.total, place.free) for i, place in enumerate(found))
