"""Sizes of one model in one setting, row by row."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from llmcli.estimate.architecture import Architecture
from llmcli.estimate.devices import Need, headroom
from llmcli.estimate.dtypes import BYTES, Format
from llmcli.estimate.engines.quantized_cache import PACKINGS
from llmcli.estimate.engines.rules import Engine
from llmcli.estimate.fitting import UNLIMITED, largest
from llmcli.estimate.layers import Layers, allocated_bytes, in_chunks, peak_bytes, shared_bytes, steady_bytes
from llmcli.estimate.loading import Loaded, load
from llmcli.estimate.long_rope import one_piece_past
from llmcli.estimate.moments import Moments, moments_of
from llmcli.estimate.overhead import overhead_of
from llmcli.estimate.report import Row
from llmcli.estimate.request import SizeRequest
from llmcli.estimate.subject import Subject


@dataclass(frozen=True, slots=True)
class Sizer:
    """Sizes of one model in one setting.

    engine: as it is told to read prompts. kv: the format of the cache; layers: what it holds, pieces: the same while a
    prompt is read as the engine does. overhead: bytes on each device. vram: bytes of each device, None where nothing is
    asked about fitting. largest_layer: the share of the weights that the largest layer has, or the embedding.
    """

    model: Architecture
    engine: Engine
    loaded: Loaded
    kv: Format
    layers: Layers
    pieces: Layers
    moments: Moments
    overhead: int
    vram: tuple[int, ...] | None
    largest_layer: float

    def row(self, context: int, batch: int) -> Row:
        """The sizes for `batch` sequences of `context` tokens each.

        activation_bytes is what the largest moment takes beside weights, overhead and the cache at its largest.
        """
        room = self.headroom(context, batch)
        return Row(
            context=context,
            batch=batch,
            kv_bytes=self.kv_bytes(context, batch),
            kv_peak_bytes=self.kv_peak_bytes(context, batch),
            kv_allocated_bytes=self.kv_allocated_bytes(context, batch),
            weights_bytes=self.loaded.weights.total,
            activation_bytes=self.activation_bytes(context, batch),
            overhead_bytes=self.overhead_bytes,
            total_bytes=self.total(context, batch),
            vram_bytes=None if self.vram is None else sum(self.vram),
            fits=None if room is None else room >= 0,
            headroom_bytes=room,
        )

    def kv_bytes(self, context: int, batch: int) -> int:
        """Of all sequences, after decode has begun."""
        return batch * steady_bytes(self.layers, context) + shared_bytes(self.layers)

    def kv_peak_bytes(self, context: int, batch: int) -> int:
        """Of all sequences, at the end of prefill."""
        return batch * peak_bytes(self._read(context), context) + shared_bytes(self.layers)

    def kv_allocated_bytes(self, context: int, batch: int) -> int:
        """What is reserved for all sequences, once decode has begun, where each will hold `context` tokens at most."""
        return batch * allocated_bytes(self.layers, context) + shared_bytes(self.layers)

    def cache_bytes(self, context: int, batch: int) -> int:
        """Of all sequences, at their largest."""
        return max(self.kv_peak_bytes(context, batch), self.kv_allocated_bytes(context, batch))

    def _read(self, context: int) -> Layers:
        return self.layers if self.moments.chunk_of(context) is None else self.pieces

    def activation_bytes(self, context: int, batch: int) -> int:
        """What the largest moment takes beside the cache at its largest: that of a forward, or of a step.

        The cache is counted so for prefill whichever is larger, its end or decode: buffers are there before it ends.
        """
        step = self.moments.decode(context, batch)
        grown = self.kv_allocated_bytes(context, batch) - self.cache_bytes(context, batch) + step
        return max(self.moments.prefill(context, batch), grown)

    @property
    def overhead_bytes(self) -> int:
        """Of all devices."""
        return self.overhead * len(self.vram or (0,))

    def total(self, context: int, batch: int) -> int:
        """All bytes at the largest moment."""
        used = self.cache_bytes(context, batch) + self.activation_bytes(context, batch)
        return self.loaded.weights.total + self.overhead_bytes + used

    def headroom(self, context: int, batch: int) -> int | None:
        """Bytes left, negative: bytes short; None where nothing is asked about fitting."""
        return self.room({context: batch}, self.cache_bytes(context, batch), self.activation_bytes(context, batch))

    def room(self, sequences: Mapping[int, int], cache: int, activations: int) -> int | None:
        """The same for so many sequences of each context whose caches take `cache` bytes together at their largest."""
        if self.vram is None:
            return None
        weights = self.loaded.weights.total
        layers = (
            sum(number * group.spec.largest_bytes(context) for context, number in sequences.items())
            for group in self._read(max(sequences))
        )
        need = Need(
            spread=weights + cache,
            each=self.overhead + activations,
            layer=max(layers, default=0) + round(weights * self.largest_layer),
        )
        return headroom(need, self.vram)

    def fits(self, context: int, batch: int) -> bool:
        """Whether it fits in the VRAM; without one everything does."""
        room = self.headroom(context, batch)
        return room is None or room >= 0

    def max_context(self, batch: int, limit: int | None) -> int:
        """The longest context up to `limit` that fits; 0 when not even one token does."""
        return largest(lambda context: self.fits(context, batch), limit or UNLIMITED)


def sizer_of(subject: Subject, request: SizeRequest, engine: Engine) -> Sizer:
    """The sizes of `subject` as `request` asks for them.

    Raises UsageError for a format that the engine does not have, ModelError for a model that it does not run.
    """
    model = subject.architecture
    engine = engine.on(request.vram)
    engine = engine if request.prefill_chunk is None else engine.reading(request.prefill_chunk)
    loaded = load(subject, request, engine.name)
    kv = engine.kv_format(request.kv_dtype or engine.default_kv(loaded.dtype))
    runs_in = kv.name if kv.name in BYTES else loaded.dtype
    layers = engine.storage(model, kv, runs_in)
    asked, pieces = request.prefill_chunk or engine.step, layers
    moments = moments_of(model, engine.name, asked, kv, runs_in, on_cpu=request.on_cpu)
    if engine.name == "transformers" and kv.name in PACKINGS:
        moments = replace(moments, chunk=None, quantized=True)
    elif engine.name == "transformers" and (chunk := moments.chunk):
        moments = replace(moments, whole_past=one_piece_past(subject.config or {}))
        pieces = in_chunks(layers, chunk)
    wholes = (*(layer.count.total for layer in model.layers), model.vocabulary * model.hidden)
    largest_layer = max(wholes) / max(1, model.params)
    return Sizer(
        model=model,
        engine=engine,
        loaded=loaded,
        kv=kv,
        layers=layers,
        pieces=pieces,
        moments=moments,
        overhead=overhead_of(engine.name, request.overhead, on_cpu=request.on_cpu)[0],
        vram=request.vram,
        largest_layer=largest_layer,
    )
