"""What to change when a row does not fit, each change with its number."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from llmcli.errors import LlmcliError
from llmcli.estimate.engines.named import ENGINES
from llmcli.estimate.engines.rules import Engine
from llmcli.estimate.fitting import largest
from llmcli.estimate.report import AdvicePart, Row
from llmcli.estimate.request import SizeRequest
from llmcli.estimate.sizer import Sizer, sizer_of
from llmcli.estimate.subject import Subject

_KV_DTYPES = ("fp8", "q8_0", "q4_0", "int4")
_QUANTS = {"transformers": ("int8", "nf4"), "llama.cpp": ("q8_0", "q4_k_m"), "vllm": ("fp8", "awq")}
_CHUNK = 512
_OTHER = "llama.cpp"
_WORTH = 20
"""Another engine is named where it saves at least this part of the total: a twentieth."""


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

        Where none of them fits alone, the smallest combination that does comes last.
        """
        single = [part for change in self._single() if (part := self._part(change)) is not None]
        single.sort(key=lambda part: -part.saved_bytes)
        if not any(part.fits for part in single) and (combined := self._combined()):
            single.append(combined)
        return tuple(single)

    def _single(self) -> Iterator[Change]:
        yield from self._kv_dtypes(self.asked)
        yield from self._quants(self.asked)
        yield from self._chunks()
        yield from self._engines()
        yield from self._shrunk(self.asked)

    def _kv_dtypes(self, change: Change) -> Iterator[Change]:
        for name in _KV_DTYPES:
            flags = (*change.flags, f"--kv-dtype {name}")
            yield replace(change, flags=flags, request=replace(change.request, kv_dtype=name))

    def _quants(self, change: Change) -> Iterator[Change]:
        """Other weights; none for a checkpoint that is quantized already, but llama.cpp converts any."""
        if self.subject.architecture.quantization and change.engine.name != _OTHER:
            return
        for name in _QUANTS.get(change.engine.name, ()):
            dtype = None if name == "int8" else change.request.dtype
            request = replace(change.request, quant=name, dtype=dtype)
            yield replace(change, flags=(*change.flags, f"--quant {name}"), request=request)

    def _chunks(self) -> Iterator[Change]:
        """Shorter pieces, where the engine reads prompts in pieces."""
        sizer = self._sizer(self.asked)
        if sizer is not None and self.asked.engine.name == "transformers" and (sizer.moments.chunk or 0) > _CHUNK:
            request = replace(self.asked.request, prefill_chunk=_CHUNK)
            yield replace(self.asked, flags=(f"--prefill-chunk {_CHUNK}",), request=request)

    def _engines(self) -> Iterator[Change]:
        other = ENGINES.get(_OTHER)
        if other is None or self.asked.engine.name == _OTHER:
            return
        change = replace(self.asked, flags=(f"--engine {_OTHER}",), engine=other)
        sizer = self._sizer(change)
        if sizer is not None:
            saved = self.row.total_bytes - sizer.total(change.context, change.batch)
            if saved * _WORTH >= self.row.total_bytes:
                yield change

    def _shrunk(self, change: Change) -> Iterator[Change]:
        """The same with a shorter context, or with fewer sequences: as much of them as fits."""
        sizer = self._sizer(change)
        if sizer is None:
            return
        context = sizer.max_context(change.batch, change.context - 1) if change.context > 1 else 0
        if context:
            flags = (*change.flags, f"--context {context}")
            yield replace(change, flags=flags, context=context, shrinks=change.shrinks + 1)
        batch = largest(lambda number: sizer.fits(change.context, number), change.batch - 1)
        if batch:
            yield replace(change, flags=(*change.flags, f"--batch {batch}"), batch=batch, shrinks=change.shrinks + 1)

    def _combined(self) -> AdvicePart | None:
        """The combination that fits with the fewest changes, and of those one that leaves context and batch alone.

        Among equals, the one that saves least: it gives up least.
        """
        found = [(change, part) for change in self._combinations() if (part := self._part(change)) and part.fits]
        best = min(found, key=lambda one: (len(one[0].flags), one[0].shrinks, one[1].saved_bytes), default=None)
        return best[1] if best else None

    def _combinations(self) -> Iterator[Change]:
        for kv in (self.asked, *self._kv_dtypes(self.asked)):
            for change in (kv, *self._quants(kv)):
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
