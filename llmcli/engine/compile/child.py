"""The process that compiles: `python -m llmcli.engine.compile.child [--low]`, with a recipe on stdin.

It is a process of its own because a compiler beside decode in one process slows it several times over. It leaves a
package behind, or one that says why there can be none.
"""

import os
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from llmcli.engine.compile import recipe as recipes
from llmcli.engine.compile import store
from llmcli.engine.compile.recipe import Recipe
from llmcli.errors import LlmcliError

LOW = "--low"
"""Run at the lowest priority."""


def main() -> None:
    """Compile, unless another process has done it meanwhile. What keeps it from that is the last line on stderr."""
    recipe = recipes.decode(sys.stdin.buffer.read())
    if LOW in sys.argv:
        _step_back()
    signal.signal(signal.SIGTERM, _end)
    try:
        with store.locked(recipe):
            if store.whole(recipe) is None:
                _make(recipe)
    except LlmcliError as error:
        sys.exit(f"{error.message} ({error.hint})")
    except OSError as error:
        sys.exit(str(error))


def _end(_number: int, _frame: object) -> NoReturn:
    """Leave in order, so that the workplace goes."""
    raise SystemExit(128 + signal.SIGTERM)


def _make(recipe: Recipe) -> None:
    scratch = store.workplace()
    try:
        _compile(recipe, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _step_back() -> None:
    """Run when nobody else wants to.

    Linux weighs the processes of one session against each other by their nice values, and sessions by values of their
    own (sched(7), autogroups): a session that only has nice processes would take half of the machine.
    """
    if hasattr(os, "nice"):
        os.nice(19)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text("19", encoding="ascii")
    if hasattr(os, "SCHED_IDLE"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _compile(recipe: Recipe, scratch: Path) -> None:
    made = Path(tempfile.mkdtemp(dir=scratch))
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(scratch / "inductor")
    tempfile.tempdir = str(scratch)
    try:
        from llmcli.engine.compile.build import build
        from llmcli.engine.quiet import quiet

        quiet()
        warnings.simplefilter("ignore")
        meta = build(recipe, made)
    except OSError:  # the disk is full: another time it may be better
        raise
    except Exception as error:  # noqa: BLE001 - whatever torch raises is the reason
        traceback.print_exc()
        shutil.rmtree(made)
        made.mkdir(mode=0o700)
        meta = store.Meta(recipes.facts(recipe), recipes.versions(), 0.0, reason=_reason(error))
    store.publish(recipe, made, meta)


def _reason(error: Exception) -> str:
    """One line: of what a C++ compiler says, its first error."""
    text = str(error)
    told = next((line for line in text.splitlines() if "error:" in line), text)
    return f"{type(error).__name__}: {' '.join(told.split())[:300]}"


if __name__ == "__main__":
    main()
