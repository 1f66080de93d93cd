"""`llmcli models compile`, and what `models show` tells of compiled decode steps."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from llmcli import console
from llmcli.cli.options import ModelOptions
from llmcli.engine.compile import store
from llmcli.engine.compile.compiler import SWITCH, allowed, refusal
from llmcli.engine.compile.recipe import model_key, versions
from llmcli.errors import LlmcliError, UsageError
from llmcli.models.status import Status
from llmcli.units import bytes_text


def compile_model(model: str | None, options: ModelOptions, rows: int) -> None:
    """Load the model as `options` say and compile its decode step. Raises LlmcliError when that cannot be done."""
    from llmcli.cli.compiling import compile_first
    from llmcli.cli.fetching import find
    from llmcli.cli.opening import open_engine

    if not allowed():
        raise UsageError(f"{SWITCH} is off: nothing is compiled", f"Unset it: {SWITCH}= llmcli models compile …")
    if (reason := refusal()) is not None:
        raise LlmcliError(f"nothing can be compiled: {reason}", "Decode is eager without.")
    if options.quant in {"int8", "nf4", "fp4"}:
        raise UsageError(
            f"--quant {options.quant}: bitsandbytes' kernels cannot be compiled", "Use --quant none or int4, on a CPU."
        )
    located = find(model, options.registry)
    engine = open_engine(located, options)
    try:
        if not engine.compilable:
            reason = engine.why_eager(rows)
            raise LlmcliError(f"{located.name} cannot be compiled: {reason}", "It runs with --decode eager.")
        engine.compile_again(rows)
        if not compile_first(engine, rows):
            raise LlmcliError(f"{located.name}: no compiled step is in use", "The line above says why.")
        console.say(f"{located.name}: the decode step is compiled{'' if rows == 1 else f' for batches of {rows}'}")
    finally:
        engine.close()


def compiled_of(status: Status) -> list[store.Package]:
    """The packages of a model that is ready to load, the newest first."""
    if status.loaded is None:
        return []
    try:
        return store.packages(model_key((Path(status.loaded) / "config.json").read_text(encoding="utf-8")))
    except OSError:
        return []


def words(package: store.Package) -> str:
    """`int4 (bfloat16), 2 threads, 4.6 MiB: 5.9 ms a step, eager 11.8 ms`."""
    meta = package.meta
    recipe = meta.recipe
    weights = recipe.dtype if recipe.quant == "none" else f"{recipe.quant} ({recipe.dtype})"
    batch = "" if recipe.rows == 1 else f", batch {recipe.rows}"
    threads = f"{recipe.threads} thread{'' if recipe.threads == 1 else 's'}"
    what = f"{weights}{batch}, {threads}, {bytes_text(package.bytes)}"
    if meta.reason is not None:
        return f"{weights}{batch}, {threads}: compiling failed: {meta.reason}; `llmcli models compile` tries again"
    if meta.versions != versions():
        made = ", ".join(f"{name} {version}" for name, version in meta.versions.items())
        return f"{what}: not in use, made by {made}"
    if meta.eager_ms is None or meta.compiled_ms is None:
        return f"{what}: not used yet"
    return f"{what}: {meta.compiled_ms:.1f} ms a step, eager {meta.eager_ms:.1f} ms"


def record(package: store.Package) -> dict[str, Any]:
    """The same for programs."""
    meta = package.meta
    return {
        **asdict(meta.recipe),
        "bytes": package.bytes,
        "versions": meta.versions,
        "in_use": meta.reason is None and meta.versions == versions(),
        "problem": meta.reason,
        "compile_seconds": meta.seconds,
        "eager_ms": meta.eager_ms,
        "compiled_ms": meta.compiled_ms,
        "directory": str(package.directory),
    }
