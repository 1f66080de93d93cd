"""What to change when a row does not fit, each change with its number."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from llmcli.errors import LlmcliError
from llmcli.estimate.engines.named import ENGINES
from llmcli.estimate.engines.rules import Engine
from llmcli.estimate.fitting import largest
from llmcli.estimate.report import AdvicePart, Row
from llmcli.estimate.request import SizeRequest
from llmcli.estimate.sizer import Sizer, sizer_of
from llmcli.estimate.subject import Subject
from llmcli.load_rules import INT8_DTYPE

_KV_DTYPES = ("fp8", "q8_0", "q4_0", "int4")
_QUANTS = {"transformers": ("int8", "nf4"), "llama.cpp": ("q8_0", "q4_k_m", "iq2_xxs"), "vllm": ("fp8", "awq")}
"""By engine. A GPU is sized, so int4, which transformers runs on a CPU, is not among them."""

_FINER = {"llama.cpp": ("q8_0", "q6_k", "q5_k_m", "q4_k_m", "q3_k_m", "q2_k", "iq2_xxs")}
"""What combinations try where an engine has more steps: the largest that fits gives up least."""

_COARSE = ("q3_k_m", "q2_k", "iq2_xxs")
_CHUNK = 512
_OTHER = "llama.cpp"
_WORTH = 20
"""Another engine is named where it saves at least this part of the total: a twentieth."""

_LITTLE = 100
"""What saves less than this part of what is short is not named."""

_ONLY_IN_BENCH = "--batch"


@dataclass(frozen=True, slots=True)
class Change:
    """A setting beside the one asked for.

    flags: how it is written. shrinks: how often it takes less context, or fewer sequences.
    """

    flags: tuple[str, ...]
    request: SizeRequest
    engine: Engine
    context: int
    batch: int
    shrinks: int = 0


@dataclass(frozen=True, slots=True)
class Adviser:
    """Finds changes to one row of a request. known: sizes that have been worked out, None where they cannot be."""

    subject: Subject
    row: Row
    asked: Change
    known: dict[tuple[SizeRequest, str], Sizer | None] = field(default_factory=dict)

    def parts(self) -> tuple[AdvicePart, ...]:
        """Changes that save memory, each alone, the largest saving first.

        Where none of them fits alone and leaves context and batch as they were asked for, a combination comes last.
        """
        short = self.row.total_bytes - (self.row.vram_bytes or 0)
        single = [
            (change, part)
            for change in self._single()
            if (part := self._part(change)) is not None and (part.fits or part.saved_bytes * _LITTLE >= short)
        ]
        single.sort(key=lambda one: -one[1].saved_bytes)
        parts = [part for _, part in single]
        if any(part.fits and not change.shrinks for change, part in single):
            return tuple(parts)
        combined = self._combined(shrink=not any(part.fits for part in parts))
        return tuple(parts) if combined is None else (*parts, combined)

    def _single(self) -> Iterator[Change]:
        yield from self._halved(self.asked)
        yield from self._kv_dtypes(self.asked)
        yield from self._needed_quants()
        yield from self._chunks(self.asked)
        yield from self._engines()
        yield from self._shrunk(self.asked)

    def _kv_dtypes(self, change: Change) -> Iterator[Change]:
        for name in _KV_DTYPES:
            flags = (*change.flags, f"--kv-dtype {name}")
            yield replace(change, flags=flags, request=replace(change.request, kv_dtype=name))

    def _halved(self, change: Change) -> Iterator[Change]:
        """16-bit numbers instead of 32."""
        sizer = self._sizer(change)
        if sizer is not None and sizer.loaded.dtype == "float32" and change.request.quant == "none":
            request = replace(change.request, dtype="bfloat16")
            yield replace(change, flags=(*change.flags, "--dtype bfloat16"), request=request)

    def _needed_quants(self) -> Iterator[Change]:
        """Other weights; of llama.cpp's types no coarser ones than are needed."""
        for change in self._quants(self.asked):
            yield change
            sizer = self._sizer(change)
            if change.engine.name == _OTHER and sizer is not None and sizer.fits(change.context, change.batch):
                return

    def _quants(self, change: Change, named: Mapping[str, tuple[str, ...]] = _QUANTS) -> Iterator[Change]:
        """Other weights; none for a checkpoint that is quantized already, and on a CPU, but llama.cpp converts any."""
        if change.engine.name != _OTHER and (self.subject.architecture.quantization or change.request.on_cpu):
            return
        for name in named.get(change.engine.name, ()):
            dtype, flag = change.request.dtype, f"--quant {name}"
            if name == "int8" and change.engine.name == "transformers" and dtype not in {None, INT8_DTYPE}:
                dtype, flag = INT8_DTYPE, f"{flag} --dtype {INT8_DTYPE}"
            request = replace(change.request, quant=name, dtype=dtype)
            yield replace(change, flags=(*change.flags, flag), request=request)

    def _chunks(self, change: Change) -> Iterator[Change]:
        """Shorter pieces, where the engine reads prompts in pieces."""
        sizer = self._sizer(change)
        if sizer is not None and change.engine.name == "transformers" and (sizer.moments.chunk or 0) > _CHUNK:
            request = replace(change.request, prefill_chunk=_CHUNK)
            yield replace(change, flags=(*change.flags, f"--prefill-chunk {_CHUNK}"), request=request)

    def _engines(self) -> Iterator[Change]:
        for change in self._elsewhere():
            sizer = self._sizer(change)
            if sizer is not None:
                saved = self.row.total_bytes - sizer.total(change.context, change.batch)
                if saved * _WORTH >= self.row.total_bytes:
                    yield change

    def _elsewhere(self) -> Iterator[Change]:
        if self.asked.engine.name != _OTHER:
            yield replace(self.asked, flags=(f"--engine {_OTHER}",), engine=ENGINES[_OTHER])

    def _shrunk(self, change: Change) -> Iterator[Change]:
        """The same with a shorter context, or with fewer sequences: as many as fit, or one."""
        sizer = self._sizer(change)
        if sizer is None:
            return
        limit = min(change.context - 1, self.subject.limit or change.context)
        context = sizer.max_context(change.batch, limit) if limit else 0
        if context:
            flags = (*change.flags, f"--context {context}")
            yield replace(change, flags=flags, context=context, shrinks=change.shrinks + 1)
        if change.batch > 1:
            batch = max(1, largest(lambda number: sizer.fits(change.context, number), change.batch - 1))
            yield replace(change, flags=(*change.flags, f"--batch {batch}"), batch=batch, shrinks=change.shrinks + 1)

    def _combined(self, *, shrink: bool) -> AdvicePart | None:
        """The combination that fits and leaves most as it is: context and batch, then the engine, then the rest.

        Among equals, the one that saves least: it gives up least. shrink: context and batch may change.
        """
        changes = [change for change in self._combinations() if shrink or not change.shrinks]
        found = [(self._cost(change), part) for change in changes if (part := self._part(change)) and part.fits]
        best = min(found, key=lambda one: (one[0], one[1].saved_bytes), default=None)
        return best[1] if best else None

    def _cost(self, change: Change) -> tuple[int, int, bool, bool, int]:
        """What a change gives up, worst first: requests cut short, context, the engine, weights below 4 bits."""
        lost = self.row.context - change.context
        coarse = change.request.quant in _COARSE
        return change.shrinks, lost, change.engine is not self.asked.engine, coarse, len(change.flags)

    def _combinations(self) -> Iterator[Change]:
        finer = {**_QUANTS, **_FINER}
        for elsewhere in self._elsewhere():
            for kv in (elsewhere, *self._kv_dtypes(elsewhere)):
                yield from self._quants(kv, finer)
        bases = (self.asked, *self._halved(self.asked))
        for kv in (change for base in bases for change in (base, *self._kv_dtypes(base))):
            for quantized in (kv, *self._quants(kv, finer)):
                for change in (quantized, *self._chunks(quantized)):
                    yield change
                    yield from self._shrunk(change)
                    if change.batch > 1:
                        flags = (*change.flags, "--batch 1")
                        yield from self._shrunk(replace(change, flags=flags, batch=1, shrinks=1))

    def _sizer(self, change: Change) -> Sizer | None:
        """Sizes in the setting of a change, None where the model or the engine does not have it."""
        key = (change.request, change.engine.name)
        if key not in self.known:
            try:
                self.known[key] = sizer_of(self.subject, change.request, change.engine)
            except LlmcliError:
                self.known[key] = None
        return self.known[key]

    def _part(self, change: Change) -> AdvicePart | None:
        """What a change saves; None where it cannot be made, or saves nothing."""
        sizer = self._sizer(change)
        if sizer is None:
            return None
        total = sizer.total(change.context, change.batch)
        saved = self.row.total_bytes - total
        if saved <= 0:
            return None
        longest = sizer.max_context(change.batch, self.subject.limit)
        return AdvicePart(" ".join(change.flags), saved, total, sizer.fits(change.context, change.batch), longest)


def advise(subject: Subject, request: SizeRequest, engine: Engine, rows: tuple[Row, ...]) -> tuple[AdvicePart, ...]:
    """What to change so that the row that is shortest of memory fits; nothing where all rows fit."""
    short = [row for row in rows if row.fits is False]
    if not short:
        return ()
    worst = min(short, key=lambda row: row.headroom_bytes or 0)
    return Adviser(subject, worst, Change((), request, engine, worst.context, worst.batch)).parts()


def missing_in_chat(parts: tuple[AdvicePart, ...], engine: Engine) -> tuple[str, ...]:
    """A note on a change that only llmcli's bench can make, where llmcli's own engine is meant."""
    if engine.name != "transformers" or not any(_ONLY_IN_BENCH in part.change for part in parts):
        return ()
    return (f"chat has no {_ONLY_IN_BENCH}: it answers one request at a time; bench runs several",)
