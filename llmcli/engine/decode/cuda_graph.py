"""Recording and sending by CUDA: graphs, pinned memory and a stream beside the one that computes."""

import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from llmcli.engine.decode.recorder import Mail, Replay

_SLOTS = 2


class CudaRecorder:
    """Captures CUDA graphs that share one pool of memory.

    Sharing is safe because replays follow one another on one stream, and nothing that outlives a replay lies in the
    pool: https://docs.pytorch.org/docs/stable/notes/cuda.html#sharing-memory-across-captures. A pool must not be used
    again once all its graphs are gone, so a recorder lives as long as they do.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()

    def record(self, work: Replay, random: torch.Generator | None = None) -> Replay:
        """See `Recorder.record`. The runs before the capture let libraries set themselves up, as torch asks for."""
        with torch.cuda.device(self._device):
            self._warm_up(work)
            graph = torch.cuda.CUDAGraph()
            if random is not None:
                graph.register_generator_state(random)
            # Other threads may use CUDA meanwhile; only what this one does is recorded, and checked.
            mode = "thread_local"
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode=mode):
                work()
        return graph.replay

    def _warm_up(self, work: Replay) -> None:
        """Run `work` on the stream of the capture, then once more to find out whether it waits for the device.

        What waits cannot be captured, and a capture that breaks off leaves more behind than a run that does.
        """
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            work()
            work()
            with _no_waiting():
                work()
        torch.cuda.current_stream(self._device).wait_stream(self._stream)

    def mail(self, rows: int) -> Mail:
        """See `Recorder.mail`."""
        return PinnedMail(rows, self._device)


@contextmanager
def _no_waiting() -> Iterator[None]:
    """Make it an error to wait for the device, as far as torch notices."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that not every wait is noticed
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


class PinnedMail:
    """Copies ids to pinned memory on a stream of its own, so that the computing stream goes on at once."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._slots = [torch.empty(rows, dtype=torch.long, pin_memory=True) for _ in range(_SLOTS)]
        self._copied = [torch.cuda.Event() for _ in range(_SLOTS)]
        self._sent = 0
        self._waiting: deque[int] = deque()

    def hold(self) -> None:
        """See `Mail.hold`; an event that was never recorded is over."""
        torch.cuda.current_stream(self._device).wait_event(self._copied[(self._sent - 1) % _SLOTS])

    def send(self, ids: torch.Tensor) -> None:
        """See `Mail.send`."""
        slot = self._sent % _SLOTS
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            self._slots[slot].copy_(ids, non_blocking=True)
            self._copied[slot].record(self._stream)
        self._sent += 1
        self._waiting.append(slot)

    def receive(self) -> list[int]:
        """See `Mail.receive`."""
        slot = self._waiting.popleft()
        self._copied[slot].synchronize()
        ids: list[int] = self._slots[slot].tolist()
        return ids

    def discard(self) -> None:
        """See `Mail.discard`; later copies follow earlier ones on the same stream."""
        self._waiting.clear()
