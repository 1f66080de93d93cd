"""A loaded model and the decode steps that were compiled for it."""

from dataclasses import replace
from functools import partial

from llmcli.engine.compile.compiler import SWITCH, allowed
from llmcli.engine.compile.eligible import refusal
from llmcli.engine.compile.steps import CompiledSteps, recipe_of
from llmcli.engine.loaded import Loaded
from llmcli.inference import LoadRequest


def with_steps(loaded: Loaded, request: LoadRequest) -> Loaded:
    """The model with the compiled step that lies in the cache, if decode may be compiled and one does.

    What was asked for by name and cannot be had is a notice.
    """
    if request.decode not in {"auto", "compiled"}:
        return loaded
    asked = request.decode == "compiled"
    why_not = refusal(loaded)
    recipe = partial(recipe_of, request.path, loaded.model, loaded.info.quant)
    steps = CompiledSteps(loaded.model, recipe, refusal=why_not, forced=asked)
    steps.adopt(1)
    loaded = replace(loaded, compiled=steps).noting(*steps.warnings)
    if asked and why_not is None and not allowed() and steps.missing(1):
        why_not = f"{SWITCH} is off, and no step has been compiled before"
    return loaded.noting(f"--decode compiled: {why_not}; decode is eager") if asked and why_not is not None else loaded
