"""A loaded model and the decode steps that were compiled for it."""

from dataclasses import replace

from llmcli.engine.compile.compiler import SWITCH, allowed
from llmcli.engine.compile.eligible import refusal
from llmcli.engine.compile.steps import CompiledSteps, recipe_maker
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
    steps = CompiledSteps(
        loaded.model, recipe_maker(request.path, loaded.model, loaded.info.quant), refusal=why_not, forced=asked
    )
    steps.adopt(1)
    loaded = replace(loaded, compiled=steps)
    if why_not is None and steps.warnings:
        loaded = replace(loaded, info=replace(loaded.info, notices=(*loaded.info.notices, *steps.warnings)))
    if asked and why_not is None and not allowed() and steps.missing(1):
        why_not = f"{SWITCH} is off, and no step has been compiled before"
    if asked and why_not is not None:
        notice = f"--decode compiled: {why_not}; decode is eager"
        loaded = replace(loaded, info=replace(loaded.info, notices=(*loaded.info.notices, notice)))
    return loaded
