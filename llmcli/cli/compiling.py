"""Compiling the decode step of a loaded model: before it is measured, or beside a conversation."""

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

from llmcli import console
from llmcli.engine.compile import launch
from llmcli.engine.compile.compiler import SWITCH, allowed, refusal

if TYPE_CHECKING:
    from llmcli.engine.local import LocalEngine

Say = Callable[[str], None]


def compile_first(engine: "LocalEngine", rows: int = 1) -> bool:
    """Compile the step for batches of `rows`, if it may be and has not been; whether one is ready now.

    Says why decode stays eager where it does, unless the user has switched compiling off.
    """
    recipe = engine.to_compile(rows)
    if recipe is not None and not allowed():
        if engine.compile_asked and rows > 1:  # for one row it has been said at load
            console.say(f"notice: decode is eager for batches of {rows}: {SWITCH} is off")
        return False
    if recipe is not None:
        if reason := refusal():
            console.say(f"notice: decode is eager: {reason}")
            return False
        of = "" if rows == 1 else f" for batches of {rows}"
        try:
            with console.progress(f"compiling the decode step{of} (once, about a minute)"):
                launch.compile_now(recipe)
        except OSError as error:
            console.say(f"notice: decode is eager: the compiler cannot be started: {error}")
            return False
        if engine.to_compile(rows) is not None:
            console.say(f"notice: decode is eager: compiling failed: {launch.last_words()}")
            return False
    _tell_why(engine, rows, console.say)
    return engine.why_eager(rows) is None


def compile_beside(engine: "LocalEngine", say: Say) -> None:
    """Begin to compile at the lowest priority, if that is to be done; later answers are then made by what it makes.

    say: says a line when the person reads.
    """
    recipe = engine.to_compile()
    if recipe is None:
        _tell_why(engine, 1, say)
        return
    if not allowed():
        return
    if reason := refusal():
        say(f"notice: decode is eager: {reason}")
        return

    def done() -> None:
        if engine.to_compile() is not None:
            say(f"notice: decode is eager: compiling failed: {launch.last_words()}")
        elif engine.info.decode_path == "compiled":
            say("the decode step is compiled: the next answer is faster")
        else:
            _tell_why(engine, 1, say)

    try:
        launch.compile_beside(recipe, done)
    except OSError as error:
        say(f"notice: decode is eager: the compiler cannot be started: {error}")
        return
    say("compiling the decode step beside the conversation, once; answers are eager until then")


def tell_not_compiled(engine: "LocalEngine", model: str | None) -> None:
    """Say why the step that `--decode compiled` asks for does not serve a single question, for which none is made.

    model: as it was named.
    """
    if engine.to_compile() is not None and allowed():
        named = [] if model is None else [model]
        command = shlex.join(
            ["llmcli", "models", "compile", *named, "--quant", engine.info.quant, "--dtype", engine.info.dtype]
        )
        console.say(f"notice: decode is eager: no step has been compiled yet; `{command}` compiles one")
    else:
        _tell_why(engine, 1, console.say)


def _tell_why(engine: "LocalEngine", rows: int, say: Say) -> None:
    """Say why a step that was wanted does not serve. What is true of every such model has been said at load."""
    reason = engine.why_eager(rows)
    if reason is not None and engine.compilable:
        say(f"notice: decode is eager: {reason}")
