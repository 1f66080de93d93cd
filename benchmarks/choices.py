"""What the choices inside the CPU engine gain, each against the way that was not taken, in alternation in one process.

Usage: python benchmarks/choices.py [MODEL] [--rounds 7] [--depths 0,512,2048] [--only buffers,unpacked,head,compiled]

- buffers: decode with K and V appended in place, against transformers' cache, which copies them for every token
- unpacked: prefill of 512 tokens with int4 weights unpacked to 16 bits, against the packed ones
- head in place: the same in bf16 with an output head that reads its weights where they lie, against copying them
- written out: a compiled bf16 step whose linear layers are loops, against library products; of 1 and of 4 rows
- short expressions: a compiled int4 step with a limit on what is computed again, against inductor's own limit
- joined: a compiled int4 step that multiplies query, key and value in one call, against three

Prints medians over rounds and the ratio within a round. Compiles seven steps first, a minute each on two cores.
"""

import argparse
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from transformers import DynamicCache

from llmcli.cli.fetching import find
from llmcli.cli.opening import load_request
from llmcli.cli.options import ModelOptions
from llmcli.engine.cache import new_cache
from llmcli.engine.compile import build as building
from llmcli.engine.compile.store import Package
from llmcli.engine.decode.arguments import Arguments
from llmcli.engine.decode.compiled import CompiledStep
from llmcli.engine.decode.eager import forward
from llmcli.engine.decode.step import windows_of
from llmcli.engine.int4 import Int4Linear, int4_modules
from llmcli.engine.load import load
from llmcli.inference import QuantChoice

PROMPT, STEPS = 512, 32
PARTS = ("buffers", "unpacked", "head", "compiled")
ROWS = 4
Way = Callable[[], float]


def loaded_with(model: str | None, quant: QuantChoice) -> Any:
    """The model, on this thread: OpenMP's threads no longer wait by spinning once several threads have some."""
    return load(load_request(find(model, None), ModelOptions(quant=quant, decode="eager")), time.perf_counter)


def filled(model: Any, cache: Any, tokens: int, rows: int = 1) -> Any:
    """The cache after `tokens` random ids in each of `rows`."""
    for ids in torch.randint(10, 1000, (rows, max(1, tokens))).split(256, dim=1):
        forward(model, ids, cache)
    return cache


def decoding(model: Any, make: Callable[[Any], Any], depth: int) -> Way:
    """Seconds per eager step with caches that `make` makes."""

    def way() -> float:
        cache = filled(model, make(model.config), depth)
        ids = torch.tensor([[5]])
        started = time.perf_counter()
        for _ in range(STEPS):
            forward(model, ids, cache)
        return (time.perf_counter() - started) / STEPS

    return way


def prefilling(model: Any, kept: dict[Int4Linear, tuple[torch.Tensor, ...]], *, unpacked: bool) -> Way:
    """Seconds of a prefill of PROMPT tokens, with or without the unpacked weights."""

    def way() -> float:
        for module, dense in kept.items():
            module.dense = dense if unpacked else ()
        started = time.perf_counter()
        filled(model, new_cache(model.config), PROMPT)
        return time.perf_counter() - started

    return way


def reading_head(model: Any, *, in_place: bool) -> Way:
    """Seconds of a prefill of PROMPT tokens, with or without what keeps the head's weights from being copied."""
    hooks = model.get_output_embeddings()._forward_pre_hooks
    kept = dict(hooks)

    def way() -> float:
        hooks.clear()
        if in_place:
            hooks.update(kept)
        started = time.perf_counter()
        filled(model, new_cache(model.config), PROMPT)
        seconds = time.perf_counter() - started
        hooks.update(kept)
        return seconds

    return way


def compiled(loaded: Any, folder: Path, name: str, rows: int = 1, **changed: Any) -> CompiledStep:
    """A step that is built with some of the builder's parts `changed`."""
    directory = folder / name
    directory.mkdir()
    print(f"compiling {name} …", flush=True)
    recipe = recipe_of(loaded, rows)
    with mock.patch.multiple(building, **changed) if changed else contextlib.nullcontext():
        meta = building.build(recipe, directory)
    cache = filled(loaded.model, new_cache(loaded.model.config), 8)
    return CompiledStep(Package(directory, meta), loaded.model, windows_of(cache))


def recipe_of(loaded: Any, rows: int) -> Any:
    """What is compiled for the model."""
    from llmcli.engine.compile.steps import recipe_of as recipe

    model = loaded.model
    return recipe(Path(model.config._name_or_path), model, loaded.info.quant, rows)


def stepping(model: Any, step: CompiledStep, depth: int, rows: int = 1) -> Way:
    """Seconds per compiled step."""

    def way() -> float:
        cache = filled(model, new_cache(model.config), depth, rows)
        arguments, ids = Arguments(cache), torch.full((rows, 1), 5)
        started = time.perf_counter()
        for position in range(depth, depth + STEPS):
            step(arguments.next(ids, position))
            arguments.wrote()
        return (time.perf_counter() - started) / STEPS

    return way


def compare(what: str, taken: Way, other: Way, rounds: int) -> None:
    """Print milliseconds of both, and how many times faster the way taken is."""
    pairs = [(taken(), other()) for _ in range(rounds + 1)][1:]
    ours, theirs = (statistics.median(values) * 1000 for values in zip(*pairs, strict=True))
    ratios = sorted(after / before for before, after in pairs)
    print(
        f"{what:<40} {ours:8.2f} ms, other way {theirs:8.2f} ms: {statistics.median(ratios):.2f} × faster "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f} over {rounds} rounds)",
        flush=True,
    )


@torch.inference_mode()
def measure(asked: argparse.Namespace, folder: Path) -> None:
    """Every choice that was asked for, at every depth."""
    plain, packed = loaded_with(asked.model, "none"), loaded_with(asked.model, "int4")
    bf16, int4 = plain.model, packed.model
    if "buffers" in asked.only:
        for depth in asked.depths:
            dynamic = decoding(bf16, lambda config: DynamicCache(config=config), depth)
            compare(f"buffers, bf16, depth {depth}", decoding(bf16, new_cache, depth), dynamic, asked.rounds)
    if "unpacked" in asked.only:
        kept = {module: module.dense for module in int4_modules(int4) if isinstance(module, Int4Linear)}
        unpacked, without = (prefilling(int4, kept, unpacked=one) for one in (True, False))
        compare(f"unpacked, prefill of {PROMPT}", unpacked, without, asked.rounds)
    if "head" in asked.only:
        in_place, copied = (reading_head(bf16, in_place=one) for one in (True, False))
        compare(f"head in place, bf16, prefill of {PROMPT}", in_place, copied, asked.rounds)
    if "compiled" in asked.only:
        compare_steps(plain, packed, asked, folder)
    info = packed.info
    print(f"{info.name}, {info.device}, {info.threads} threads, torch {torch.__version__}")


def compare_steps(plain: Any, packed: Any, asked: argparse.Namespace, folder: Path) -> None:
    """The choices inside the compiled step."""
    bf16, int4 = plain.model, packed.model
    steps = dict(steps_of(plain, packed, folder))
    for choice, model, name, other, rows in (
        ("written out, bf16", bf16, "bf16", "bf16-library", 1),
        (f"written out, bf16, {ROWS} rows", bf16, "bf16-rows", "bf16-rows-library", ROWS),
        ("short expressions, int4", int4, "int4", "int4-long", 1),
        ("joined, int4", int4, "int4", "int4-apart", 1),
    ):
        for depth in asked.depths:
            ways = (stepping(model, steps[one], depth, rows) for one in (name, other))
            compare(f"{choice}, depth {depth}", *ways, asked.rounds)


def steps_of(plain: Any, packed: Any, folder: Path) -> Iterator[tuple[str, CompiledStep]]:
    """The compiled steps that are compared, by name."""
    library: dict[str, Any] = {"write_out_linears": lambda _: 0}
    with torch.inference_mode(mode=False):
        for name, loaded, rows, changed in (
            ("bf16", plain, 1, {}),
            ("bf16-library", plain, 1, library),
            ("bf16-rows", plain, ROWS, {}),
            ("bf16-rows-library", plain, ROWS, library),
            ("int4", packed, 1, {}),
            ("int4-long", packed, 1, {"_LONGEST_EXPRESSION": 50}),
            ("int4-apart", packed, 1, {"join_projections": lambda _: {}}),
        ):
            yield name, compiled(loaded, folder, name, rows, **changed)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--depths", default="0,512,2048")
    parser.add_argument("--only", default=",".join(PARTS), help="default: %(default)s")
    asked = parser.parse_args()
    asked.depths = [int(depth) for depth in asked.depths.split(",")]
    asked.only = asked.only.split(",")
    if unknown := sorted(set(asked.only) - set(PARTS)):
        parser.error(f"--only: {', '.join(unknown)}: not one of {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(folder) / "inductor")
        measure(asked, Path(folder))


if __name__ == "__main__":
    main()
