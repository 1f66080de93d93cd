"""The one inference thread."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")
_Job = tuple[Callable[[], object], "Future[object]"]


class InferenceThread:
    """Runs jobs one after the other on one thread for the life of the process.

    CUDA-graph state belongs to a thread, so loading, prefill and decode of all requests share this one. It is a
    daemon: a program that ends does not wait for a running kernel.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="inference", daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], T]) -> "Future[T]":
        """Queue `job`; its result or its exception comes through the future."""
        future: Future[T] = Future()
        self._jobs.put((job, future))  # type: ignore[arg-type]
        return future

    def call(self, job: Callable[[], T]) -> T:
        """Run `job` and wait for it, ready for Ctrl-C; raises what it raised."""
        future = self.submit(job)
        while True:
            try:
                return future.result(timeout=0.2)  # a wait without end cannot be interrupted on Windows
            except TimeoutError:
                if future.done():
                    raise

    def close(self) -> None:
        """Let the running job end, then end the thread."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, future = item
            try:
                future.set_result(job())
            except BaseException as error:  # noqa: BLE001 - it is raised again where the result is asked for
                future.set_exception(error)
            del item, job, future  # a result lives as long as its owner wants, not until the next job
