"""The engine interface over transformers on this machine."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from queue import Empty, SimpleQueue

from llmcli.engine.generate import Generated
from llmcli.engine.load import load
from llmcli.engine.loaded import Loaded
from llmcli.engine.quiet import quiet
from llmcli.engine.serve import Serving
from llmcli.engine.stop import TextStream
from llmcli.engine.thread import InferenceThread
from llmcli.inference import (
    Cancel,
    Clock,
    Event,
    Finished,
    GenerateRequest,
    LoadRequest,
    ModelInfo,
    Piece,
    PrefillProgress,
    Trace,
)


class _Either:
    """Set when the caller cancels or has stopped listening."""

    def __init__(self, cancel: Cancel) -> None:
        self._cancel = cancel
        self._abandoned = threading.Event()

    def is_set(self) -> bool:
        return self._cancel.is_set() or self._abandoned.is_set()

    def abandon(self) -> None:
        self._abandoned.set()


class LocalEngine:
    """A model on this machine behind one inference thread."""

    def __init__(self, loaded: Loaded, thread: InferenceThread, clock: Clock = time.perf_counter) -> None:
        self.clock = clock
        self._loaded = loaded
        self._thread = thread

    @classmethod
    def load(cls, request: LoadRequest, thread: InferenceThread, clock: Clock = time.perf_counter) -> "LocalEngine":
        """Load a model for `thread`, on which this has to be called; raises what `load` raises."""
        quiet()
        return cls(load(request, clock), thread, clock)

    @property
    def info(self) -> ModelInfo:
        """The loaded model."""
        return self._loaded.info

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that are no text: control tokens and whatever ends an answer."""
        tokenizer = self._loaded.tokenizer
        return self._loaded.eos_ids | frozenset(tokenizer.all_special_ids if tokenizer is not None else ())

    def close(self) -> None:
        """End the inference thread."""
        self._thread.close()

    def generate(self, request: GenerateRequest, cancel: Cancel) -> Iterator[Event]:
        """Run one request; see `Engine.generate`. Text is made here, on the caller's thread, beside decode."""
        submitted = self.clock()
        steps: SimpleQueue[PrefillProgress | Generated | None] = SimpleQueue()
        either = _Either(cancel)

        serving = Serving(self._loaded, request, cancel=either, emit=steps.put, clock=self.clock)

        def job() -> Trace:
            try:
                return serving.run(submitted)
            finally:
                steps.put(None)

        future = self._thread.submit(job)
        try:
            yield from self._events(request, steps, future)
        finally:
            either.abandon()

    def _events(
        self,
        request: GenerateRequest,
        steps: "SimpleQueue[PrefillProgress | Generated | None]",
        future: "Future[Trace]",
    ) -> Iterator[Event]:
        text = TextStream(self._loaded.tokenizer, request.stop) if self._loaded.tokenizer is not None else None
        busy = 0.0
        while (step := _next(steps)) is not None:
            if isinstance(step, PrefillProgress):
                yield step
                continue
            started = self.clock()
            piece = text.add(step.token_id) if text is not None and step.ends != "eos" else ""
            busy += self.clock() - started
            yield Piece(step.token_id, piece, step.at)
        trace = future.result()
        started = self.clock()
        rest = text.finish() if text is not None else ""
        yield Finished(rest, replace(trace, detokenize=busy + self.clock() - started))


def _next(steps: "SimpleQueue[PrefillProgress | Generated | None]") -> PrefillProgress | Generated | None:
    while True:
        try:
            return steps.get(timeout=0.5)  # a wait without end cannot be interrupted on Windows
        except Empty:
            continue
