"""The captured decode steps of a loaded model, for as long as it is loaded."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from llmcli.engine import device as devices
from llmcli.engine.cache import new_cache
from llmcli.engine.decode.agreement import TRIAL_TOKENS, Trial, require_agreement
from llmcli.engine.decode.eager import forward
from llmcli.engine.decode.program import Bucket, LayerShape, Program, shapes_of
from llmcli.engine.decode.recorder import Recorder, Replay
from llmcli.engine.failures import let_go, reason_of
from llmcli.engine.sample import Sampler
from llmcli.inference import Clock
from llmcli.units import seconds_text

T = TypeVar("T")


class CaptureFailed(Exception):
    """A step could not be captured; that has been noted, and no further one will be tried."""


@dataclass(frozen=True, slots=True)
class Captures:
    """What there is to tell about captures: how long they took, in seconds, and what a person should know."""

    seconds: float = 0.0
    notices: tuple[str, ...] = ()


class Graphs:
    """Has the steps of a model captured, each when it is first needed.

    They are kept for one size of batch, the one that was last asked for: for the life of the model where that does not
    change. broken: a capture has failed, and the model decodes eagerly from then on.
    """

    def __init__(
        self,
        model: Any,
        recorder: Callable[[], Recorder],
        *,
        limit: int | None = None,
        clock: Clock = time.perf_counter,
    ) -> None:
        """recorder: makes what records the graphs of one program. limit: the most tokens of a request, if known."""
        self.model = model
        self.broken = False
        self._recorder = recorder
        self._limit = limit
        self._clock = clock
        self._shapes: tuple[LayerShape, ...] = ()
        self._logits: torch.Tensor | None = None
        self._program: Program | None = None
        self._seconds = 0.0
        self._notices: list[str] = []

    @torch.inference_mode()
    def prepare(self) -> None:
        """Capture the forward of the smallest bucket ahead of all requests, and hold it against an eager one.

        Raises CaptureFailed.
        """
        program = self.program(1)
        bucket = self.bucket(program, TRIAL_TOKENS + 1)
        self._attempt(lambda: self._compare(program, bucket))

    def _compare(self, program: Program, bucket: Bucket) -> None:
        trial = Trial(self.model, program.batch, self._limit)
        want = forward(self.model, trial.last, trial.filled())
        require_agreement(program.trial(trial.filled(), trial.last, bucket), want, "the captured step")

    def program(self, batch: int) -> Program:
        """The program for `batch` sequences; one for another size is given up. Raises CaptureFailed."""
        if self.broken:
            raise CaptureFailed
        if self._program is None or self._program.batch != batch:
            self._program = None
            self._program = self._attempt(lambda: self._new_program(batch))
        return self._program

    def _new_program(self, batch: int) -> Program:
        if self._logits is None:  # one token tells the shapes of the K and V of all layers
            cache = new_cache(self.model.config)
            ids = torch.zeros((1, 1), dtype=torch.long, device=self.model.device)
            self._logits = forward(self.model, ids, cache)
            self._shapes = shapes_of(cache)
        return Program(self.model, self._shapes, self._logits.expand(batch, -1), self._recorder(), self._limit)

    def bucket(self, program: Program, tokens: int) -> Bucket:
        """See `Program.bucket`. Raises CaptureFailed."""
        if program.has(tokens):
            return program.bucket(tokens)
        before = self._seconds
        made = self._attempt(lambda: program.bucket(tokens))
        took = seconds_text(self._seconds - before)
        self._notices.append(f"captured the decode step for up to {max(made.rows.values())} tokens in {took}")
        return made

    def choice(self, program: Program, sampler: Sampler) -> Replay:
        """See `Program.choice`. Raises CaptureFailed."""
        return self._attempt(lambda: program.choice(sampler))

    def _attempt(self, capture: Callable[[], T]) -> T:
        started = self._clock()
        try:
            return capture()
        except Exception as error:
            let_go(error)
            self.broken = True
            self._notices.append(f"CUDA graphs cannot be used, decoding eagerly from now on: {reason_of(error)}")
            self.drop()
            raise CaptureFailed from error
        finally:
            self._seconds += self._clock() - started

    def drop(self) -> None:
        """Give all that was captured up, with its memory; K and V of a cache that lie there stay with the cache."""
        self._program = None
        devices.release(self.model.device)

    def report(self) -> Captures:
        """What happened since it was last asked."""
        captures = Captures(self._seconds, tuple(self._notices))
        self._seconds, self._notices = 0.0, []
        return captures
