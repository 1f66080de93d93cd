"""The engine interface over transformers on this machine."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from llmcli.engine.compile.recipe import Recipe
from llmcli.engine.failures import translate
from llmcli.engine.generate import Generated
from llmcli.engine.handover import Handover
from llmcli.engine.live_cache import live_cache
from llmcli.engine.load import load
from llmcli.engine.loaded import Loaded
from llmcli.engine.quiet import quiet
from llmcli.engine.serve import Serving
from llmcli.engine.stop import TextStream
from llmcli.engine.tensor_parallel import Led, follow
from llmcli.engine.thread import InferenceThread
from llmcli.errors import LlmcliError
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
        self._abandoned = False

    def is_set(self) -> bool:
        return self._abandoned or self._cancel.is_set()

    def abandon(self) -> None:
        self._abandoned = True


class LocalEngine:
    """A model on this machine behind one inference thread."""

    def __init__(self, loaded: Loaded, thread: InferenceThread, clock: Clock = time.perf_counter) -> None:
        self.clock = clock
        self._loaded = loaded
        self._thread = thread
        self._live = live_cache(loaded)

    @classmethod
    def load(cls, request: LoadRequest, thread: InferenceThread, clock: Clock = time.perf_counter) -> "LocalEngine":
        """Load a model for `thread`, on which this has to be called; raises what `load` raises."""
        quiet()
        return cls(load(request, clock), thread, clock)

    @property
    def info(self) -> ModelInfo:
        """The loaded model; its decode path is the one that the next request takes."""
        info, steps, graphs = self._loaded.info, self._loaded.compiled, self._loaded.graphs
        if graphs is not None and not graphs.broken:
            return replace(info, decode_path="graph")
        return info if steps is None or steps.ready(1) is None else replace(info, decode_path="compiled")

    def to_compile(self, rows: int = 1) -> Recipe | None:
        """What has to be compiled for batches of `rows`; None where that has been done, or cannot be."""
        steps = self._loaded.compiled
        if steps is None:
            return None

        def job() -> Recipe | None:
            steps.adopt(rows)
            return steps.recipe(rows) if steps.missing(rows) else None

        return self._thread.call(job)

    def compile_again(self, rows: int = 1) -> None:
        """Forget a compiled step for batches of `rows` that could not be made or used: it has to be compiled anew."""
        steps = self._loaded.compiled
        if steps is not None:
            self._thread.call(lambda: steps.forget(rows))

    @property
    def compile_asked(self) -> bool:
        """Whether a compiled step was asked for by name."""
        return self._loaded.compiled is not None and self._loaded.compiled.forced

    @property
    def compilable(self) -> bool:
        """Whether decode of a model like this one may be compiled, and is to be."""
        return self._loaded.compiled is not None and self._loaded.compiled.refusal is None

    def why_eager(self, rows: int = 1) -> str | None:
        """Why no compiled step serves batches of `rows`, in words; None where one does or none was asked for."""
        return None if self._loaded.compiled is None else self._loaded.compiled.reason(rows)

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that are no text: control tokens and whatever ends an answer."""
        tokenizer = self._loaded.tokenizer
        return self._loaded.eos_ids | frozenset(tokenizer.all_special_ids if tokenizer is not None else ())

    def close(self) -> None:
        """End the inference thread, and let processes go that share the model."""
        if isinstance(self._loaded.model, Led):
            with suppress(Exception):  # they notice it as well when this process ends
                self._thread.submit(self._loaded.model.end).result(timeout=_FAREWELL)
        if self._loaded.compiled is not None:
            with suppress(Exception):  # a request may still be running
                self._thread.submit(self._loaded.compiled.close).result(timeout=_FAREWELL)
        self._thread.close()

    def generate(self, request: GenerateRequest, cancel: Cancel) -> Iterator[Event]:
        """Run one request; see `Engine.generate`. Text is made here, on the caller's thread, beside decode."""
        submitted = self.clock()
        steps = Handover()
        either = _Either(cancel)
        serving = Serving(self._loaded, self._live, request, cancel=either, emit=steps.put, clock=self.clock)

        def job() -> Trace:
            try:
                return serving.run(submitted)
            except LlmcliError:
                raise
            except Exception as error:
                raise translate(error, "reading the prompt", "Shorten the prompt, or free memory first.") from error
            finally:
                steps.end()

        future = self._thread.submit(job)
        words = _Words(self._loaded.tokenizer, request, self.clock)
        try:
            for step in steps:
                if isinstance(step, PrefillProgress):
                    yield step
                    continue
                yield Piece(step.token_id, words.add(step), step.at, step.ids[1:], steps.more)
                if words.fault is not None:
                    either.abandon()
            trace = future.result()
            yield Finished(words.finish(), words.complete(trace))
        finally:
            either.abandon()


_FAREWELL = 10.0
"""Seconds that the last forward may take before the others are left behind."""


def follow_leader(request: LoadRequest) -> None:
    """Serve the process that talks, with this one's part of the model; raises what `load` raises."""
    quiet()
    follow(load(request, time.perf_counter))


class _Words:
    """The text of an answer, made on the caller's thread. A fault there ends the answer and keeps what there is."""

    def __init__(self, tokenizer: Any, request: GenerateRequest, clock: Clock) -> None:
        self._text = None if tokenizer is None else TextStream(tokenizer, request.stop)
        self._clock = clock
        self._busy = 0.0
        self.fault: LlmcliError | None = None

    def add(self, step: Generated) -> str:
        text = self._text
        return "" if text is None or step.ends == "eos" else self._timed(lambda: text.add(step.token_id))

    def finish(self) -> str:
        return "" if self._text is None else self._timed(self._text.finish)

    def complete(self, trace: Trace) -> Trace:
        """The trace with what happened here."""
        trace = replace(trace, detokenize=self._busy)
        return trace if self.fault is None else replace(trace, finish_reason="error", error=self.fault)

    def _timed(self, make: Callable[[], str]) -> str:
        if self.fault is not None:
            return ""
        started = self._clock()
        try:
            return make()
        except Exception as error:  # noqa: BLE001 - text and figures so far are kept
            self.fault = translate(error, "turning ids into text", "Free memory first.")
            return ""
        finally:
            self._busy += self._clock() - started
