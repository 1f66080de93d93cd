"""`--verify`: the one way of `estimate-kv` that loads torch."""

import importlib
from dataclasses import replace
from typing import Any

from llmcli import console
from llmcli.errors import UsageError
from llmcli.estimate.render.proof import agrees
from llmcli.estimate.report import Estimate, VerifyPart
from llmcli.estimate.subject import Subject
from llmcli.models.json_file import read_json_object


def refuse_verifying(subject: Subject, engine: str) -> None:
    """Raise UsageError for what cannot be built: another engine's cache, a model without a config.json."""
    if engine != "transformers":
        raise UsageError(
            f"--verify builds transformers' cache, not that of {engine}", "Leave --verify out, or --engine."
        )
    if subject.config is None:
        raise UsageError(
            f"--verify needs a config.json, and {subject.name} has none at hand",
            "Name a config.json, or a directory that has one.",
        )


def verified(sized: Estimate, subject: Subject, how: str) -> Estimate:
    """`sized` with what a cache that was really built holds at every context and batch. how: `meta` or `real`."""
    console.say("notice: --verify loads torch and transformers, and builds the model")
    config = read_json_object(subject.config) if subject.config else {}
    contexts = tuple(dict.fromkeys(row.context for row in sized.rows))
    batches = tuple(dict.fromkeys(row.batch for row in sized.rows))
    engine = importlib.import_module("llmcli.engine.verify_cache")
    measured = engine.verify(config, contexts, batches, how, dtype=sized.kv.dtype)
    parts = tuple(_compared(one, sized, how) for one in measured)
    wrong = sum(not agrees(part) for part in parts)
    warnings = (f"{wrong} of {len(parts)} caches that were built differ from the estimate",) if wrong else ()
    return replace(sized, verified=parts, warnings=(*sized.warnings, *warnings))


def _compared(measured: Any, sized: Estimate, how: str) -> VerifyPart:
    """measured: context, batch, kv_bytes, kv_peak_bytes and params of a model that was built."""
    at = (measured.context, measured.batch)
    row = next(row for row in sized.rows if (row.context, row.batch) == at)
    return VerifyPart(
        how=how,
        context=row.context,
        batch=row.batch,
        estimated_bytes=row.kv_bytes,
        measured_bytes=measured.kv_bytes,
        difference_bytes=measured.kv_bytes - row.kv_bytes,
        estimated_peak_bytes=row.kv_peak_bytes,
        measured_peak_bytes=measured.kv_peak_bytes,
        estimated_params=sized.model.params,
        measured_params=measured.params,
    )
