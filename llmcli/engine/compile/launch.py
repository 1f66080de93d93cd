"""Starting the process that compiles, and waiting for it."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from llmcli.engine.compile import child
from llmcli.engine.compile.compiler import NAMED, compiler
from llmcli.engine.compile.recipe import Recipe, encode
from llmcli.paths import display, state_dir

LOG = "compile.log"
_FAREWELL = 5.0
"""Seconds to leave in order."""


def start(recipe: Recipe, *, low: bool) -> "subprocess.Popen[bytes]":
    """Begin to compile, out of reach of Ctrl-C and of this process's end. low: at the lowest priority.

    Raises OSError.
    """
    state_dir().mkdir(mode=0o700, parents=True, exist_ok=True)
    environment = {**os.environ, NAMED: compiler() or ""}
    command = [sys.executable, "-P", "-m", child.__name__, *([child.LOW] if low else [])]
    with (state_dir() / LOG).open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own program
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True
        )
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    process.stdin.write(encode(recipe))
    process.stdin.close()
    return process


def compile_beside(recipe: Recipe, done: Callable[[], None]) -> None:
    """Compile at the lowest priority; `done` is called on a thread of its own when that has ended. Raises OSError."""
    process = start(recipe, low=True)

    def wait() -> None:
        process.wait()
        done()

    threading.Thread(target=wait, name="compiling", daemon=True).start()


def compile_now(recipe: Recipe) -> None:
    """Compile and wait, ready for Ctrl-C, which ends the compilation too. Raises OSError."""
    process = start(recipe, low=False)
    try:
        while process.poll() is None:
            try:
                process.wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                continue
    finally:
        if process.poll() is None:
            _end(process)


def last_words() -> str:
    """What the last compilation said at its end, or where it may be read; for one that left nothing behind."""
    log = state_dir() / LOG
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        lines = []
    said = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"{said[:300]} ({display(log)})" if said else "it ended without a word"


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End it and the C++ compiler that it has started."""
    for ask in (signal.SIGTERM, signal.SIGKILL) if sys.platform != "win32" else (signal.SIGTERM,):
        with suppress(ProcessLookupError):
            if sys.platform == "win32":
                process.terminate()
            else:
                os.killpg(process.pid, ask)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_FAREWELL)
            return
