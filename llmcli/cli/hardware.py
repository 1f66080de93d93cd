"""The devices of this machine and their free memory, told without loading torch."""

import importlib.metadata
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from llmcli.load_rules import parse_device

Build = Literal["cpu", "cuda", "mps"]


@dataclass(frozen=True, slots=True)
class Place:
    """A device that a model can be loaded on. free, total: its memory in bytes.

    name: what its driver calls it, empty where that is not asked.
    """

    device: str
    free: int
    total: int
    name: str = field(default="", compare=False)

    @property
    def kind(self) -> str:
        """Cpu, mps or cuda."""
        return self.device.partition(":")[0]


def place_of(device: str) -> Place | None:
    """The place that a device flag means; None where only torch can tell, or where it is not there."""
    kind, index = parse_device(device)
    if kind == "auto":
        build = torch_build()
        if build is None:
            return None
        places = gpus() if build == "cuda" else ()
        if places is None:
            return None
        return places[0] if places else memory("mps" if build == "mps" else "cpu")
    if kind == "cuda":
        places = gpus() or ()
        return places[index] if index < len(places) else None
    return memory(kind)


def together(places: Sequence[Place], each: int) -> Place:
    """GPUs, and the main memory beside them, as one place. each: what every one but the first takes for itself."""
    taken = each * (len(places) - 1)
    names = " + ".join(place.device for place in places)
    return Place(names, sum(p.free for p in places) - taken, sum(p.total for p in places) - taken)


def memory(device: str = "cpu") -> Place:
    """The machine's own memory; Metal devices share it."""
    import psutil

    facts = psutil.virtual_memory()
    return Place(device, facts.available, facts.total)


def torch_build() -> Build | None:
    """What the installed torch was built for, told from its version; None where that does not say."""
    try:
        local = importlib.metadata.version("torch").partition("+")[2]
    except importlib.metadata.PackageNotFoundError:
        return None
    if local:
        return "cpu" if local == "cpu" else "cuda" if local.startswith("cu") else None
    return _PLAIN_BUILDS.get((sys.platform, platform.machine()))


_PLAIN_BUILDS: dict[tuple[str, str], Build] = {
    ("linux", "x86_64"): "cuda",
    ("darwin", "arm64"): "mps",
    ("win32", "AMD64"): "cpu",
}
"""What the package index's own builds, whose versions say nothing, are made for."""


def gpus(*, numbered: bool = True) -> tuple[Place, ...] | None:
    """The NVIDIA GPUs as CUDA numbers them; none without a driver, None where the numbering cannot be told.

    numbered: their numbers matter; without it all of them are known where CUDA_VISIBLE_DEVICES chooses none.
    """
    try:
        import pynvml  # type: ignore[import-untyped]
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        handles = _visible(pynvml, numbered=numbered)
        return None if handles is None else tuple(_gpu(pynvml, i, handle) for i, handle in enumerate(handles))
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()


def _gpu(nvml: Any, index: int, handle: Any) -> Place:
    facts = nvml.nvmlDeviceGetMemoryInfo(handle)
    name = nvml.nvmlDeviceGetName(handle)
    return Place(f"cuda:{index}", int(facts.free), int(facts.total), name if isinstance(name, str) else name.decode())


def _visible(nvml: Any, *, numbered: bool) -> list[Any] | None:
    """The devices that CUDA_VISIBLE_DEVICES leaves, in its order; None where CUDA may number them in another way."""
    handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    entries = [str(i) for i in range(len(handles))] if named is None else named.split(",")
    if any(entry.strip().startswith("MIG") for entry in entries):
        return None
    alike = len({nvml.nvmlDeviceGetName(handle) for handle in handles}) <= 1
    ordered = alike or os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or (named is None and not numbered)
    chosen = []
    for entry in map(str.strip, entries):
        if entry.startswith("GPU"):
            chosen.append(nvml.nvmlDeviceGetHandleByUUID(entry))
            continue
        if not (entry.isdecimal() and int(entry) < len(handles)):
            break  # CUDA takes no notice of what follows
        if not ordered:
            return None
        chosen.append(handles[int(entry)])
    return chosen
