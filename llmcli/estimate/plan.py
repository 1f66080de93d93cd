"""From a model's facts and a request to the answer."""

from collections.abc import Sequence

from llmcli.errors import UsageError
from llmcli.estimate.advice import advise, missing_in_chat
from llmcli.estimate.comparison import compare
from llmcli.estimate.decode import decode_parts
from llmcli.estimate.engines.rules import Engine
from llmcli.estimate.engines.transformers import TRANSFORMERS
from llmcli.estimate.layers import (
    Layers,
    asymptotic_token_bytes,
    first_token_bytes,
    fixed_bytes,
    peak_bytes,
    shared_bytes,
)
from llmcli.estimate.mix import mix_of
from llmcli.estimate.moments import chunk_note
from llmcli.estimate.overhead import overhead_of
from llmcli.estimate.report import SCHEMA, Estimate, KvPart, LayerPart, MixPart, ModelPart, Row
from llmcli.estimate.request import SizeRequest
from llmcli.estimate.sizer import Sizer, sizer_of
from llmcli.estimate.subject import Subject
from llmcli.units import bytes_text

DEFAULT_CONTEXTS = (4096, 8192, 32768)
_LARGEST = 2**63 - 1


def estimate(subject: Subject, request: SizeRequest, engine: Engine = TRANSFORMERS) -> Estimate:
    """Size `subject`; gpus, prompt and verified stay empty.

    Raises UsageError for a format or quantization that the engine does not have and for figures beyond 2**63 bytes,
    ModelError for a dtype without a size and for a model that the engine does not run.
    """
    model, sizer = subject.architecture, sizer_of(subject, request, engine)
    contexts = request.contexts or tuple(dict.fromkeys(request.mix)) or _default_contexts(subject.limit)
    rows = tuple(sizer.row(context, batch) for batch in request.batches for context in contexts)
    mix = mix_of(sizer, request.mix)
    if max(*(row.total_bytes for row in rows), mix.total_bytes if mix else 0) > _LARGEST:
        raise UsageError("the sizes pass 2**63 bytes", "Ask for a shorter --context or a smaller --batch.")
    longest = None if request.vram is None else sizer.max_context(max(request.batches), subject.limit)
    advice = advise(subject, request, engine, rows)
    others, notes = compare(sizer, engine, rows[-1])
    notes += missing_in_chat(advice, engine)
    return Estimate(
        schema=SCHEMA,
        engine=engine.name,
        engine_version=engine.version,
        model=ModelPart(subject.name, model.model_type, model.params, model.active_params, model.vision_params),
        kv=kv_part(sizer.layers, sizer.kv.name, _inexact(sizer)),
        rows=rows,
        max_context=longest,
        comparison=others,
        mix=mix,
        prompt=None,
        gpus=(),
        advice=advice,
        decode=decode_parts(sizer, rows, request.bandwidth),
        verified=(),
        assumptions=(*subject.assumptions, *_assumptions(sizer, request, rows[-1]), *notes),
        warnings=(
            *subject.warnings,
            *sizer.loaded.warnings,
            *_too_long(subject, (*contexts, *request.mix)),
            *_nothing_fits(longest, request),
            *_split(sizer, (*rows, mix) if mix else rows),
        ),
    )


def kv_part(layers: Layers, dtype: str, inexact: tuple[str, ...]) -> KvPart:
    """The cache of one sequence, in groups of layers."""
    groups = tuple(
        LayerPart(
            group.spec.kind,
            group.count,
            group.spec.token_bytes,
            group.spec.max_tokens,
            group.spec.fixed_bytes,
        )
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


def _inexact(sizer: Sizer) -> tuple[str, ...]:
    """Why sizes are not exact: because of the model, of the engine, or of the format."""
    chunk = sizer.moments.chunk
    cut = chunk is not None and any(chunk % group.spec.stride for group in sizer.layers)
    peak = (f"upper bound at the end of prefill: {chunk} tokens at once end within a compressed row",) if cut else ()
    return (*sizer.model.inexact, *sizer.engine.inexact(sizer.model), *sizer.kv.inexact, *peak)


def _assumptions(sizer: Sizer, request: SizeRequest, longest: Row) -> tuple[str, ...]:
    model, engine = sizer.model, sizer.engine
    read = chunk_note(sizer.moments, asked=request.prefill_chunk is not None)
    notes = [*engine.assumptions(model), *sizer.loaded.assumptions, read, *_in_one_piece(sizer, longest)]
    notes.append(overhead_of(engine.name, request.overhead, on_cpu=request.on_cpu)[1])
    if len(sizer.vram or ()) > 1:
        notes.append(
            "several devices: whole layers on each, so up to one layer's room stays empty on all but the last, "
            "and each needs activations of its own"
        )
    return tuple(notes)


def _in_one_piece(sizer: Sizer, row: Row) -> tuple[str, ...]:
    """What the cache of `row` takes at the end of a prefill by one forward, where reading in pieces takes less."""
    whole = row.batch * peak_bytes(sizer.layers, row.context) + shared_bytes(sizer.layers)
    if whole == row.kv_peak_bytes:
        return ()
    read = f"in one piece, as transformers' generate() reads it, a prompt of {row.context} tokens"
    return (f"{read} would make the cache {bytes_text(whole)} at the end of prefill",)


def _default_contexts(limit: int | None) -> Sequence[int]:
    fitting = [context for context in DEFAULT_CONTEXTS if limit is None or context <= limit]
    return fitting or [limit or 1]


def _too_long(subject: Subject, contexts: Sequence[int]) -> tuple[str, ...]:
    limit = subject.limit
    longer = dict.fromkeys(context for context in contexts if limit is not None and context > limit)
    if not longer:
        return ()
    return (f"context {', '.join(map(str, longer))} passes the {limit} tokens that {subject.limited_by} allows",)


def _nothing_fits(longest: int | None, request: SizeRequest) -> tuple[str, ...]:
    if longest != 0:
        return ()
    return (f"not even one token of context fits at batch {max(request.batches)}",)


def _split(sizer: Sizer, sized: Sequence[Row | MixPart]) -> tuple[str, ...]:
    """A warning where all devices together are large enough, and whole layers are not small enough for them."""
    devices = sizer.vram or ()
    torn = [part.total_bytes for part in sized if part.fits is False and part.total_bytes <= sum(devices)]
    if not torn:
        return ()
    least = f"{bytes_text(min(torn))} is less than {len(devices)} devices have together"
    return (f"{least}, but whole layers, and activations on each, do not fit on them one by one",)
