"""A tiny model whose decode step is really compiled, once for all tests."""

import itertools
import json
import os
import shutil
import sys
from pathlib import Path

from tiny_models import TEMPLATE, byte_tokenizer, tiny_model

from llmcli import paths
from llmcli.engine.compile import launch, store
from llmcli.engine.start import start_engine
from llmcli.inference import LoadRequest

EAGER_MS, COMPILED_MS = 2.0, 1.0
KIND = {
    "model_type": "gemma3_text",
    "vocab_size": 258,
    "num_hidden_layers": 2,
    "layer_types": ["sliding_attention", "full_attention"],
}
"""Windows of 8 beside full attention, a scaled embedding, and frequencies so few that a compiler would inline them."""


def save(folder: Path, **more) -> Path:
    """A directory with a model of this kind."""
    tiny_model(**(KIND | more)).save_pretrained(folder)
    byte_tokenizer(TEMPLATE).save_pretrained(folder)
    return folder


def request(folder: Path, **more) -> LoadRequest:
    return LoadRequest(folder, "tiny", "test", **more)


def compile_once(folder: Path) -> tuple[Path, Path]:
    """Directories of a model and of the packages that hold its step, made in a process as the program makes it."""
    model = save(folder / "model")
    engine = start_engine(request(model))
    launch.compile_now(engine.to_compile())
    engine.close()
    assert store.packages(store.place_of(engine._loaded.compiled.recipe(1)).parent.name), launch.last_words()
    kept = folder / "compiled"
    shutil.copytree(store.root(), kept)
    return model, kept


def put(packages: Path) -> None:
    """Lay the packages where this test's program looks for them, as if it had compiled and timed them.

    A step of so small a model takes as long as the noise of a clock: which is faster is no matter of luck here.
    """
    paths.cache_dir().mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copytree(packages, store.root(), dirs_exist_ok=True)
    for meta in store.root().glob(f"*/*/{store.META}"):
        meta.write_text(json.dumps(json.loads(meta.read_text()) | {"eager_ms": EAGER_MS, "compiled_ms": COMPILED_MS}))


def steady_clock():
    """In place of `steps._timed`: eager and compiled steps, which come in turn, take EAGER_MS and COMPILED_MS."""
    took = itertools.cycle((EAGER_MS, COMPILED_MS))
    return lambda run: (run(), next(took))


def instead_of(module: str, code: str, folder: Path) -> dict[str, str]:
    """Environment of a program in which importing `module` first runs `code`."""
    (folder / "sitecustomize.py").write_text(
        "import importlib.abc, os, sys, time\n"
        "class Hook(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == {module!r}:\n"
        "            sys.meta_path.remove(self)\n"
        f"            exec({code!r}, {{}})\n"
        "sys.meta_path.insert(0, Hook())\n"
    )
    return {"PYTHONPATH": os.pathsep.join((str(folder), *filter(None, sys.path)))}
