"""From a model's facts and a request to the answer: rows, what fits, and the longest context that fits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llmcli.errors import ModelError, UsageError
from llmcli.estimate.dtypes import BYTES, canonical
from llmcli.estimate.engines.rules import Engine
from llmcli.estimate.engines.transformers import TRANSFORMERS
from llmcli.estimate.layers import (
    Layers,
    asymptotic_token_bytes,
    first_token_bytes,
    fixed_bytes,
    peak_bytes,
    steady_bytes,
)
from llmcli.estimate.report import SCHEMA, Estimate, KvPart, LayerPart, ModelPart, Row
from llmcli.estimate.request import SizeRequest
from llmcli.estimate.subject import Subject
from llmcli.estimate.weights import weight_bytes
from llmcli.inference import Quant
from llmcli.load_rules import INT8_DTYPE

DEFAULT_CONTEXTS = (4096, 8192, 32768)
_LARGEST = 2**63 - 1
_UNLIMITED = 2**40


def estimate(subject: Subject, request: SizeRequest, engine: Engine = TRANSFORMERS) -> Estimate:
    """Size `subject`. Raises ModelError for a dtype without a size, UsageError for figures beyond 2**63 bytes."""
    model = subject.architecture
    dtype, dtype_notes = _weights_dtype(subject, request)
    kv = engine.kv_format(request.kv_dtype or dtype)
    weights, weight_notes = _weights(subject, request.quant, dtype)
    contexts = request.contexts or _default_contexts(subject.limit)
    layers = engine.storage(model, kv, kv.name if kv.name in BYTES else dtype)
    sizer = Sizer(layers, weights, sum(request.vram) if request.vram else None)
    rows = tuple(sizer.row(context, batch) for batch in request.batches for context in contexts)
    if any(row.total_bytes > _LARGEST for row in rows):
        raise UsageError("the sizes pass 2**63 bytes", "Ask for a shorter --context or a smaller --batch.")
    longest = None if request.vram is None else sizer.max_context(max(request.batches), subject.limit)
    return Estimate(
        SCHEMA,
        engine.name,
        engine.version,
        ModelPart(subject.name, model.model_type, model.params, model.active_params, model.vision_params),
        kv_part(layers, kv.name, model.inexact),
        rows,
        longest,
        (),
        None,
        None,
        (),
        (),
        (),
        (),
        (*subject.assumptions, *dtype_notes, *weight_notes, _NOT_COUNTED),
        (*subject.warnings, *_too_long(subject, contexts), *_nothing_fits(longest, request)),
    )


_NOT_COUNTED = "not counted: activations, and what the runtime itself takes (a CUDA context is roughly 0.5 GiB)"


@dataclass(frozen=True, slots=True)
class Sizer:
    """Sizes of one model in one setting. weights, vram: bytes."""

    layers: Layers
    weights: int
    vram: int | None

    def row(self, context: int, batch: int) -> Row:
        """The sizes for `batch` sequences of `context` tokens each; eager decode reserves no more than it holds."""
        steady = batch * steady_bytes(self.layers, context)
        total = self.total(context, batch)
        return Row(
            context=context,
            batch=batch,
            kv_bytes=steady,
            kv_peak_bytes=batch * peak_bytes(self.layers, context),
            kv_allocated_bytes=steady,
            weights_bytes=self.weights,
            activation_bytes=None,
            overhead_bytes=None,
            total_bytes=total,
            vram_bytes=self.vram,
            fits=None if self.vram is None else total <= self.vram,
            headroom_bytes=None if self.vram is None else self.vram - total,
        )

    def total(self, context: int, batch: int) -> int:
        """Weights and the largest that the KV cache gets, in bytes."""
        kv = max(steady_bytes(self.layers, context), peak_bytes(self.layers, context))
        return self.weights + batch * kv

    def max_context(self, batch: int, limit: int | None) -> int:
        """The longest context up to `limit` whose total fits in the VRAM; 0 when not even one token does."""
        room = self.vram or 0
        return _largest(lambda context: self.total(context, batch) <= room, limit or _UNLIMITED)


def _largest(fits: Callable[[int], bool], limit: int) -> int:
    """The largest number from 1 to `limit` that fits, where all smaller ones fit as well; 0 when none does."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def kv_part(layers: Layers, dtype: str, inexact: tuple[str, ...]) -> KvPart:
    """The cache of one sequence, in groups of layers."""
    groups = tuple(
        LayerPart(group.spec.kind, group.count, group.spec.token_bytes, group.spec.max_tokens, group.spec.state_bytes)
        for group in layers
    )
    return KvPart(
        dtype=dtype,
        bytes_per_token_short=first_token_bytes(layers),
        bytes_per_token_asymptotic=asymptotic_token_bytes(layers),
        fixed_bytes=fixed_bytes(layers),
        exact=not inexact,
        inexact=inexact,
        layers=groups,
    )


def _weights_dtype(subject: Subject, request: SizeRequest) -> tuple[str, tuple[str, ...]]:
    if request.quant == "int8":
        return INT8_DTYPE, ()
    if request.dtype:
        return request.dtype, ()
    named = subject.architecture.dtype
    if named is None:
        return "float32", ("the config names no dtype: float32, as transformers takes it; --dtype sets another",)
    dtype = canonical(named)
    if dtype is None:
        raise ModelError(f"{subject.name}: the dtype {named!r} has no known size", "Say what to load it in: --dtype.")
    return dtype, ()


def _weights(subject: Subject, quant: Quant, dtype: str) -> tuple[int, tuple[str, ...]]:
    model = subject.architecture
    if quant == "none" and model.quantization and subject.stored_bytes is not None:
        return subject.stored_bytes, (f"weights as stored, quantized with {model.quantization}",)
    size = weight_bytes(model, quant, dtype)
    if quant == "none":
        return size, (f"weights in {dtype}, {BYTES[dtype]} bytes per parameter",)
    each = "8 bits each and a scale per row" if quant == "int8" else "4.5 bits each"
    return size, (f"weights in {quant}: linear layers at {each}, embeddings, head and norms in {dtype}",)


def _default_contexts(limit: int | None) -> Sequence[int]:
    fitting = [context for context in DEFAULT_CONTEXTS if limit is None or context <= limit]
    return fitting or [limit or 1]


def _too_long(subject: Subject, contexts: Sequence[int]) -> tuple[str, ...]:
    longer = [context for context in contexts if subject.limit is not None and context > subject.limit]
    if not longer:
        return ()
    return (
        f"context {', '.join(map(str, longer))} passes the {subject.limit} tokens that {subject.limited_by} allows",
    )


def _nothing_fits(longest: int | None, request: SizeRequest) -> tuple[str, ...]:
    if longest != 0:
        return ()
    return (f"not even one token of context fits at batch {max(request.batches)}",)
