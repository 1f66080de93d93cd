"""What the runtime takes on each device before any weight is there: assumptions, each with its source."""

from collections.abc import Mapping
from dataclasses import dataclass

from llmcli.units import GIB, MIB, bytes_text

CUDA_CONTEXT = 512 * MIB
"""Driver context and kernels. Reported: 0.39 GiB outside torch (vLLM's log), 0.7 GiB for a process with one number
(PyTorch's forum), 0.6 GB in calculators."""

CPU_RUNTIME = 400 * MIB
"""Libraries (296 MiB were measured before any weight was there) and the activations of one short prefill chunk."""

_VLLM_GRAPHS = GIB
"""CUDA graphs: 0.46 to 2.5 GiB are reported for vLLM."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """What an engine takes on one device, in bytes, and what for."""

    bytes: int
    what: str


RUNTIMES: Mapping[str, Runtime] = {
    "transformers": Runtime(CUDA_CONTEXT, "a CUDA context"),
    "llama.cpp": Runtime(CUDA_CONTEXT, "a CUDA context"),
    "vllm": Runtime(
        CUDA_CONTEXT + _VLLM_GRAPHS,
        "a CUDA context and CUDA graphs, while all of the VRAM may be used (--gpu-memory-utilization 1, not 0.9)",
    ),
}


_ON_CPU = Runtime(CPU_RUNTIME, "libraries on a CPU")


def overhead_of(engine: str, asked: int | None, *, on_cpu: bool = False) -> tuple[int, str]:
    """Bytes on each device, and where the number is from. on_cpu: the device is a CPU."""
    if asked is not None:
        return asked, f"overhead of the runtime: {bytes_text(asked)} per device, as --overhead says"
    runtime = _ON_CPU if on_cpu else RUNTIMES[engine]
    return runtime.bytes, f"overhead of the runtime, assumed: {bytes_text(runtime.bytes)} per device for {runtime.what}"
