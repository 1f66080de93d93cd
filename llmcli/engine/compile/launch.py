"""Starting the process that compiles, and waiting for it."""

import subprocess
import sys
import threading
from collections.abc import Callable

from llmcli.engine.compile import child
from llmcli.engine.compile.recipe import Recipe, encode
from llmcli.paths import state_dir

LOG = "compile.log"


def start(recipe: Recipe, *, low: bool) -> "subprocess.Popen[bytes]":
    """Begin to compile. low: at the lowest priority, and beyond the end of this process. Raises OSError."""
    state_dir().mkdir(mode=0o700, parents=True, exist_ok=True)
    command = [sys.executable, "-P", "-m", child.__name__, *([child.LOW] if low else [])]
    with (state_dir() / LOG).open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own program
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=low
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
            process.terminate()
            process.wait()
