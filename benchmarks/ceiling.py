"""What the machine can do at best, measured: memory bandwidth and bf16 matrix products, with torch."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

GIB = 1 << 30
_LARGE, _MATRIX = 8192, 4096
_LEAST_SECONDS = 0.3


class Ceiling:
    """Measures a device. bytes: of the buffer that is read, far more than the caches hold; side: of the matrices."""

    def __init__(self, device: str = "cpu", size: int | None = None, side: int | None = None) -> None:
        import torch

        on_gpu = device.startswith("cuda")
        size, side = size or (4 * GIB if on_gpu else GIB), side or (_LARGE if on_gpu else _MATRIX)
        self._torch = torch
        self._device = torch.device(device)
        self._buffer = torch.ones(size // 4, dtype=torch.float32, device=self._device)
        self._target = torch.empty_like(self._buffer) if on_gpu else None
        self._sides = torch.randn((2, side, side), device=self._device).to(torch.bfloat16)
        self._side = side
        name = torch.cuda.get_device_name(self._device) if on_gpu else "cpu"
        self.facts = {"device": name, "buffer_bytes": size, "matrix": side, "threads": torch.get_num_threads()}

    def measure(self) -> dict[str, float]:
        """read, copy (what is read and what is written): bytes per second; matmul: FLOP/s. Each the best of a few."""
        with self._torch.inference_mode():
            size = self._buffer.numel() * 4
            found = {"read": size / self._best(self._read), "matmul": 2 * self._side**3 / self._best(self._multiply)}
            if self._target is not None:
                found["copy"] = 2 * size / self._best(lambda: self._target.copy_(self._buffer))
            return found

    def _read(self) -> Any:
        return self._buffer.sum()

    def _multiply(self) -> Any:
        return self._sides[0] @ self._sides[1]

    def _best(self, work: Callable[[], Any]) -> float:
        """Seconds of the fastest of at least five runs, the first one left out."""
        self._timed(work)
        times: list[float] = []
        while len(times) < 5 or sum(times) < _LEAST_SECONDS:
            times.append(self._timed(work))
        return min(times)

    def _timed(self, work: Callable[[], Any]) -> float:
        started = time.perf_counter()
        work()
        if self._device.type == "cuda":
            self._torch.cuda.synchronize(self._device)
        return time.perf_counter() - started


@dataclass(frozen=True, slots=True)
class Attainable:
    """What a device does at best: bytes per second, and bf16 FLOP per second."""

    bandwidth: float
    flops: float


def attainable(measured: list[dict[str, float]]) -> Attainable | None:
    """The medians of several measurements, the faster of read and copy; None without one."""
    if not measured:
        return None
    bandwidth = statistics.median(max(one["read"], one.get("copy", 0.0)) for one in measured)
    return Attainable(bandwidth, statistics.median(one["matmul"] for one in measured))
