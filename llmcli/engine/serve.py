"""One request on the inference thread: raw facts in, a trace out."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch

from llmcli import ranks
from llmcli.engine import device as devices
from llmcli.engine.architectures import frequency_switch
from llmcli.engine.capturing import let_go, with_captures
from llmcli.engine.decode.choose import begin_path
from llmcli.engine.decode.path import DecodePath, Ids
from llmcli.engine.failures import translate
from llmcli.engine.generate import Evaluated, Generated, generate
from llmcli.engine.int4 import make_room
from llmcli.engine.live_cache import LiveCache, Match, Rows, live_cache
from llmcli.engine.loaded import Loaded
from llmcli.engine.prompt import encode, render
from llmcli.engine.sample import Sampler
from llmcli.engine.stop import Stopping, TextStream
from llmcli.errors import LlmcliError, OutOfMemory, UsageError
from llmcli.inference import Cancel, Clock, FinishReason, GenerateRequest, Message, PrefillProgress, Trace
from llmcli.units import bytes_text

Emit = Callable[[PrefillProgress | Generated], None]

_GAVE_UP = "memory is short: unpacked weights were given up for the cache, so prompts are read more slowly from now on"


@dataclass(slots=True)
class Marks:
    """Clock readings of a running request, filled in as it goes, with what it has evaluated and generated."""

    submitted: float
    taken: float | None = None
    templated: float | None = None
    tokenized: float | None = None
    prefill_started: float | None = None
    prefill_ended: float | None = None
    arrivals: list[float] = field(default_factory=list)
    evaluated: int = 0
    generated: list[Ids] = field(default_factory=list)
    path: DecodePath | None = None

    def held(self, cached: int) -> int:
        """Tokens of each row that have been run through the model, `cached` ones before this request included."""
        return cached + self.evaluated + len(self.generated[:-1])

    def forwarded(self, rows: Rows, cached: int) -> Rows:
        """The ids of each row that have been run through the model: the last ones that were generated have not."""
        made = self.generated[:-1]
        return tuple((*ids[: cached + self.evaluated], *(at[row] for at in made)) for row, ids in enumerate(rows))


def _refuse_ragged(rows: Rows) -> None:
    """Raise UsageError unless all rows are of one length: what would fill up the shorter ones would be attended to."""
    lengths = sorted(set(map(len, rows)))
    if len(lengths) > 1:
        raise UsageError(
            f"the {len(rows)} prompts of a batch have {', '.join(map(str, lengths))} tokens",
            "Prompts that run beside each other must have as many tokens each.",
        )


class Serving:
    """One request being served by a loaded model."""

    def __init__(
        self, loaded: Loaded, live: LiveCache, request: GenerateRequest, *, cancel: Cancel, emit: Emit, clock: Clock
    ) -> None:
        self._loaded = loaded
        self._live = live
        self._request = request
        self._cancel = cancel
        self._emit = emit
        self._clock = clock

    def run(self, submitted: float) -> Trace:
        """Serve it. Raises UsageError when the prompt cannot be used; later failures are part of the trace."""
        marks = Marks(submitted, taken=self._clock())
        ids = self._prompt_ids(marks)
        self._refuse_without_room(len(ids))
        rows = (ids, *self._request.beside)
        _refuse_ragged(rows)
        if not self._reuses:
            self._live.drop()
            self._live = live_cache(self._loaded)
        gave_up = self._loaded.info.quant == "int4" and make_room(self._loaded.model)
        match = self._live.match(rows, self._clock())
        for device in self._loaded.devices:
            devices.reset_peak(device)
        error: LlmcliError | None = None
        try:
            reason = self._answer(rows, match, marks)
            self._settle(match, marks)
        except Exception as raised:  # noqa: BLE001 - whatever happens, the answer so far and its figures are kept
            error = translate(raised, "answering", self._memory_cure(len(ids)))
            reason = "memory" if isinstance(error, OutOfMemory) else "error"
        trace = with_captures(self._trace(marks, len(ids), match, reason, error), self._loaded)
        if gave_up:
            trace = replace(trace, notices=(*trace.notices, _GAVE_UP))
        self._leave_cache(rows, match, marks, trace)
        return trace

    @property
    def _reuses(self) -> bool:
        return self._request.reuse_cache and self._loaded.info.cache_reuse

    def _settle(self, match: Match, marks: Marks) -> None:
        """Leave the cache with exactly what the answer is made of; a decode path may have run ahead of it."""
        if marks.path is not None:
            marks.path.settle(marks.held(match.cached))

    def _leave_cache(self, rows: Rows, match: Match, marks: Marks, trace: Trace) -> None:
        """Keep the cache for the next request, with exactly the ids that have been forwarded, or let go of it.

        After a failure it may hold half a forward, and on a GPU the failure may be that of an earlier kernel.
        """
        if trace.error is not None or not self._reuses:
            self._live.drop()
        elif marks.prefill_started is not None:
            self._live.keep(marks.forwarded(rows, match.cached), trace.ended)
        if isinstance(trace.error, OutOfMemory):
            let_go(self._loaded)
            make_room(self._loaded.model, wanted=sys.maxsize)
            for device in self._loaded.devices:
                devices.release(device)

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

    def _answer(self, rows: Rows, match: Match, marks: Marks) -> FinishReason:
        """Drive the loop until it ends by itself or a cancel is set."""
        prompt = torch.tensor(rows, device=self._loaded.device)
        length = prompt.shape[1]
        sampler = Sampler(self._request.sampling, prompt)
        stopping = self._stopping(length)
        rest = length - match.cached
        self._emit(PrefillProgress(0, rest))
        if self._cancel.is_set():
            return "interrupted"
        cache = self._live.begin(match.cached)
        marks.path = begin_path(self._loaded, cache, sampler, prompt, live=self._live, room=stopping.room)
        marks.prefill_started = self._clock()
        steps = generate(
            marks.path,
            prompt[:, match.cached :],
            chunk=self._chunk(length),
            check=stopping.check,
            clock=self._clock,
            devices=self._loaded.devices,
        )
        for step in steps:
            if isinstance(step, Evaluated):
                marks.evaluated, marks.prefill_ended = step.count, step.at
                self._emit(PrefillProgress(step.count, rest))
            else:
                marks.arrivals.append(step.at)
                marks.generated.append(step.ids)
                self._emit(step)
                if step.ends:
                    return step.ends
            if self._cancel.is_set():
                return "interrupted"
        raise AssertionError("generate ends only after a last id")

    def _chunk(self, prompt: int) -> int:
        switch = frequency_switch(self._loaded.model.config)
        return self._loaded.chunk if switch is None or prompt <= switch else prompt

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
            "shorten the prompt, lower --max-new-tokens, use --quant int4 (on a CPU) or nf4, or a smaller model."
        )

    def _trace(self, marks: Marks, prompt: int, match: Match, reason: FinishReason, error: LlmcliError | None) -> Trace:
        path = marks.path
        return Trace(
            prompt=prompt,
            cached=match.cached,
            evaluated=marks.evaluated,
            truncated=0,
            steps=0 if path is None else path.steps,
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
            peak_bytes=devices.peak_bytes(*self._loaded.devices),
            kv_bytes=self._live.bytes * ranks.world(),  # every process holds as much
            error=error,
            cache_source="live" if match.cached else "none",
            cache_age=match.age,
            cache_break_at=match.break_at,
            miss_reason=match.miss_reason,
            drafted=0 if path is None else path.drafted,
            accepted=0 if path is None else path.accepted,
            batch=1 + len(self._request.beside),
            decode_path=None if path is None else path.name,
        )
