"""One request on the inference thread: raw facts in, a trace out."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from llmcli.engine import device as devices
from llmcli.engine.cache import kv_bytes, new_cache
from llmcli.engine.failures import translate
from llmcli.engine.generate import Evaluated, Generated, generate
from llmcli.engine.loaded import Loaded
from llmcli.engine.prompt import encode, render
from llmcli.engine.sample import Sampler
from llmcli.engine.stop import Stopping, TextStream
from llmcli.errors import LlmcliError, OutOfMemory, UsageError
from llmcli.inference import Cancel, Clock, FinishReason, GenerateRequest, Message, PrefillProgress, Trace
from llmcli.units import bytes_text

Emit = Callable[[PrefillProgress | Generated], None]


@dataclass(slots=True)
class Marks:
    """Clock readings of a running request, filled in as it goes."""

    submitted: float
    taken: float | None = None
    templated: float | None = None
    tokenized: float | None = None
    prefill_started: float | None = None
    prefill_ended: float | None = None
    arrivals: list[float] = field(default_factory=list)
    evaluated: int = 0


class Serving:
    """One request being served by a loaded model."""

    def __init__(self, loaded: Loaded, request: GenerateRequest, *, cancel: Cancel, emit: Emit, clock: Clock) -> None:
        self._loaded = loaded
        self._request = request
        self._cancel = cancel
        self._emit = emit
        self._clock = clock

    def run(self, submitted: float) -> Trace:
        """Serve it. Raises UsageError when the prompt cannot be used; later failures are part of the trace."""
        marks = Marks(submitted, taken=self._clock())
        ids = self._prompt_ids(marks)
        self._refuse_without_room(len(ids))
        cache = new_cache(self._loaded.model.config)
        devices.reset_peak(self._loaded.device)
        error: LlmcliError | None = None
        try:
            reason = self._answer(ids, cache, marks)
        except Exception as raised:  # noqa: BLE001 - whatever happens, the answer so far and its figures are kept
            error = translate(raised, "answering", self._memory_cure(len(ids)))
            reason = "memory" if isinstance(error, OutOfMemory) else "error"
        return self._trace(marks, len(ids), kv_bytes(cache), reason, error)

    def _prompt_ids(self, marks: Marks) -> tuple[int, ...]:
        prompt = self._request.prompt
        if all(isinstance(item, int) for item in prompt):
            marks.templated = marks.tokenized = marks.taken
            return tuple(item for item in prompt if isinstance(item, int))
        tokenizer = self._loaded.tokenizer
        rendered = render(tokenizer, [item for item in prompt if isinstance(item, Message)])
        marks.templated = self._clock()
        ids = encode(tokenizer, rendered, self._loaded.info.vocab_size)
        marks.tokenized = self._clock()
        return ids

    def _refuse_without_room(self, prompt: int) -> None:
        info = self._loaded.info
        if prompt < info.context_limit:
            return
        other = "" if info.context_bound_by == "model" else f", or raise the limit that {info.context_bound_by} sets"
        raise UsageError(
            f"the prompt has {prompt} tokens, but prompt and answer must fit {info.context_limit} tokens of context",
            f"Shorten the prompt{other}.",
        )

    def _answer(self, ids: tuple[int, ...], cache: Any, marks: Marks) -> FinishReason:
        """Drive the loop until it ends by itself or a cancel is set."""
        prompt = torch.tensor([ids], device=self._loaded.device)
        sample = Sampler(self._request.sampling, prompt)
        stopping = self._stopping(len(ids))
        self._emit(PrefillProgress(0, len(ids)))
        if self._cancel.is_set():
            return "interrupted"
        marks.prefill_started = self._clock()
        steps = generate(
            self._loaded.model,
            cache,
            prompt,
            chunk=self._loaded.chunk,
            sample=sample,
            check=stopping.check,
            clock=self._clock,
        )
        for step in steps:
            if isinstance(step, Evaluated):
                marks.evaluated, marks.prefill_ended = step.count, step.at
                self._emit(PrefillProgress(step.count, len(ids)))
            else:
                marks.arrivals.append(step.at)
                self._emit(step)
                if step.ends:
                    return step.ends
            if self._cancel.is_set():
                return "interrupted"
        raise AssertionError("generate ends only after a last id")

    def _stopping(self, prompt: int) -> Stopping:
        request, loaded = self._request, self._loaded
        return Stopping(
            eos_ids=frozenset() if request.ignore_eos else loaded.eos_ids,
            max_new_tokens=request.sampling.max_new_tokens,
            room=loaded.info.context_limit - prompt,
            text=TextStream(loaded.tokenizer, request.stop) if request.stop else None,
        )

    def _memory_cure(self, prompt: int) -> str:
        return (
            f"The prompt has {prompt} tokens, the weights take {bytes_text(self._loaded.info.weight_bytes)}: "
            "shorten the prompt, lower --max-new-tokens, use --quant nf4 or a smaller model."
        )

    def _trace(
        self, marks: Marks, prompt: int, cache_bytes: int, reason: FinishReason, error: LlmcliError | None
    ) -> Trace:
        return Trace(
            prompt=prompt,
            cached=0,
            evaluated=marks.evaluated,
            truncated=0,
            steps=max(0, len(marks.arrivals) - 1),
            arrivals=tuple(marks.arrivals),
            submitted=marks.submitted,
            taken=marks.taken,
            templated=marks.templated,
            tokenized=marks.tokenized,
            prefill_started=marks.prefill_started,
            prefill_ended=marks.prefill_ended,
            ended=self._clock(),
            detokenize=0.0,
            finish_reason=reason,
            peak_bytes=devices.peak_bytes(self._loaded.device),
            kv_bytes=cache_bytes,
            error=error,
        )
