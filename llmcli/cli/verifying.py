"""`--verify`: the one way of `estimate-kv` that loads torch."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from llmcli.cli.size_flags import Question
from llmcli.errors import UsageError
from llmcli.estimate.dtypes import BYTES, canonical
from llmcli.estimate.plan import estimate
from llmcli.estimate.render.proof import agrees
from llmcli.estimate.report import Estimate, Row, VerifyPart
from llmcli.estimate.subject import Subject

if TYPE_CHECKING:
    from llmcli.engine.measure_cache import Measured

How = Literal["meta", "real"]


def refuse_verifying(asked: Question) -> None:
    """Raise UsageError for a cache that cannot be built: another engine's, a quantized one."""
    engine, request = asked.engine, asked.request
    if engine.name != "transformers":
        raise UsageError(f"--verify builds transformers' cache, not that of {engine.name}", "Leave one of them out.")
    if request.kv_dtype is not None and canonical(request.kv_dtype) is None:
        raise UsageError(
            f"--verify builds caches of floats, not of {request.kv_dtype}", "Leave --kv-dtype out, or write bf16."
        )


def refuse_without_config(subject: Subject) -> None:
    """Raise UsageError for a model that nothing can be built from."""
    if subject.config is None:
        raise UsageError(
            f"--verify needs a config.json, and {subject.name} has none at hand",
            "Name a config.json, or a directory that has one.",
        )


def verified(sized: Estimate, subject: Subject, asked: Question, how: How) -> Estimate:
    """`sized` with what a cache that was really built, and filled in one piece, holds at every context and batch.

    Raises ModelError when transformers cannot build the model, OutOfMemory when there is no room for a real one.
    """
    from llmcli.engine.measure_cache import measure_cache

    rows = _in_one_piece(sized, subject, asked)
    weights = subject.architecture.params * BYTES[sized.kv.dtype]
    needed = weights + max(row.kv_peak_bytes + row.activation_bytes for row in rows)
    sizes = [(row.context, row.batch) for row in rows]
    measured = measure_cache(subject.config or {}, sizes, how, sized.kv.dtype, needed)
    parts = tuple(_compared(one, row, sized.model.params, how) for one, row in zip(measured, rows, strict=True))
    wrong = sum(not agrees(part) for part in parts)
    warnings = (f"{wrong} of {len(parts)} caches that were built differ from the estimate",) if wrong else ()
    return replace(sized, verified=parts, warnings=(*sized.warnings, *warnings))


def _in_one_piece(sized: Estimate, subject: Subject, asked: Question) -> Sequence[Row]:
    """The rows as they are when every prompt is read by one forward."""
    contexts = tuple(dict.fromkeys(row.context for row in sized.rows))
    request = replace(asked.request, contexts=contexts, prefill_chunk=max(contexts), vram=None)
    return estimate(subject, request, asked.engine).rows


def _compared(measured: "Measured", row: Row, params: int, how: How) -> VerifyPart:
    return VerifyPart(
        how=how,
        context=row.context,
        batch=row.batch,
        estimated_bytes=row.kv_bytes,
        measured_bytes=measured.held_bytes,
        difference_bytes=measured.held_bytes - row.kv_bytes,
        estimated_peak_bytes=row.kv_peak_bytes,
        measured_peak_bytes=measured.peak_bytes,
        estimated_params=params,
        measured_params=measured.params,
    )
