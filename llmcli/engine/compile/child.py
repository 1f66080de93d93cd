"""The process that compiles: `python -m llmcli.engine.compile.child [--low]`, with a recipe on stdin.

It is a process of its own because a compiler beside decode in one process slows it several times over. It leaves a
package behind, or one that says why there can be none.
"""

import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import filelock

from llmcli.engine.compile import recipe as recipes
from llmcli.engine.compile import store
from llmcli.engine.compile.recipe import Recipe

LOW = "--low"
"""Run at the lowest priority, and leave the work to a process that does it already."""


def main() -> None:
    """Compile, unless that has been done."""
    recipe = recipes.decode(sys.stdin.buffer.read())
    low = LOW in sys.argv
    if low and hasattr(os, "nice"):
        os.nice(19)
    scratch = store.workplace()
    try:
        with filelock.FileLock(store.root() / f".{recipe.key}.lock", blocking=not low):
            if store.find(recipe) is None:
                _compile(recipe, scratch)
    except filelock.Timeout:
        return
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


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
    except Exception as error:  # noqa: BLE001 - whatever torch raises is the reason
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        shutil.rmtree(made)
        made.mkdir(mode=0o700)
        meta = store.Meta(recipes.facts(recipe), recipes.versions(), 0.0, reason=reason)
    store.publish(recipe, made, meta)


if __name__ == "__main__":
    main()
