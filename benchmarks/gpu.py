"""Decode and prefill of an 8B model on a CUDA device, beside what the device attains and beside transformers.

Usage: python benchmarks/gpu.py [--device cuda] [--budget 450] [--json FILE]
       python benchmarks/gpu.py --tiny --device cpu        tries the script out where there is no GPU

Nothing is downloaded: the model has the shape of Llama-3.1-8B and random weights. Measures memory bandwidth (read and
copy) and bf16 matrix products first, then each of llmcli's decode paths, `generate` of transformers, and nf4 by
bitsandbytes: decode at depth 512 and prefill of 2,048 tokens, batch 1, medians of 5. Every part has a process of its
own: one that fails or hangs says so in one line, and the rest goes on. What no longer fits the budget (in seconds) is
left out. The JSON is written after every part; it goes to $OUT/gpu.json where OUT is set.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ceiling import Ceiling, attainable
from gpu_parts import LlmcliPart, TransformersPart
from gpu_report import Plan, Results, figures, lines
from model_shape import shape_of
from random_model import LLAMA_8B, TINY, write_checkpoint
from setting import setting, setting_line, write_json
from workers import Unavailable, Worker

REPEATS = 5
MOST_SECONDS = 150
"""What one part may take, so that one that hangs does not cost the others."""
LLMCLI = {
    f"{quant}-{decode}": ("none" if quant == "bf16" else quant, decode)
    for quant, decode in (
        ("bf16", "graph"),
        ("bf16", "eager"),
        ("nf4", "graph"),
        ("bf16", "compiled"),
        ("nf4", "eager"),
    )
}
ORDER = ("bf16-graph", "bf16-eager", "transformers", "nf4-graph", "bf16-compiled", "nf4-eager")
"""What matters most comes first, for when the budget does not reach."""


FULL = Plan(LLAMA_8B)
SMALL = Plan(TINY, depth=32, steps=8, prefill=128, buffer=1 << 24, matrix=256, least_seconds=1)


class Budget:
    """Seconds from now on."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self._end - time.monotonic()


def builds(plan: Plan, directory: Path, device: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Every part: its name, and what its process builds."""
    yield "attainable", (Ceiling, device, plan.buffer, plan.matrix)
    for name in ORDER:
        if name == "transformers":
            yield name, (TransformersPart, str(directory), device)
        else:
            yield name, (LlmcliPart, str(directory), device, *LLMCLI[name])


def run_part(name: str, build: tuple[Any, ...], plan: Plan, budget: Budget, results: Results) -> None:
    """One part from its start to its end. Raises Unavailable; what was measured before that is kept."""
    own = Budget(min(budget.left, MOST_SECONDS))
    worker = Worker(*build, timeout=own.left)
    results.facts[name] = worker.facts
    try:
        if name == "attainable":
            results.ceilings.extend(worker.ask("measure", timeout=own.left).value for _ in range(3))
            return
        series = results.seconds.setdefault(name, {})
        for number in range(REPEATS + 1):
            seconds = worker.ask("request", plan.depth, plan.steps, timeout=own.left).value
            series.setdefault("decode" if number else "first", []).append(seconds["decode"])
        for number in range(REPEATS + 1):
            seconds = worker.ask("request", plan.prefill, 1, timeout=own.left).value
            if number:
                series.setdefault("prefill", []).append(seconds["prefill"])
    finally:
        worker.close()


def measure(plan: Plan, device: str, budget: Budget, results: Results, save: Callable[[], None]) -> None:
    """All parts that fit the budget, each saved when it is done."""
    with tempfile.TemporaryDirectory() as folder:
        directory = write_checkpoint(Path(folder) / "random", plan.config)
        for name, build in builds(plan, directory, device):
            if budget.left < plan.least_seconds:
                results.failed[name] = f"left out: {budget.left:.0f} s are left of the budget"
            else:
                started = time.monotonic()
                try:
                    run_part(name, build, plan, budget, results)
                except Unavailable as error:
                    results.failed[name] = str(error)
                print(f"{name}: {results.failed.get(name, 'done')} ({time.monotonic() - started:.0f} s)", flush=True)
            save()


def document(plan: Plan, facts: dict[str, Any], results: Results) -> dict[str, Any]:
    """Everything, for a program."""
    shape, best = shape_of(plan.config), attainable(results.ceilings)
    return {
        "schema": "llmcli.gpu/1",
        **facts,
        "model": {key: value for key, value in plan.config.items() if isinstance(value, (int, float))},
        "settings": {"depth": plan.depth, "steps": plan.steps, "prefill": plan.prefill, "repeats": REPEATS},
        "attainable": results.ceilings,
        "parts": results.facts,
        "seconds": results.seconds,
        "figures": figures(plan, shape, best, results),
        "failed": results.failed,
    }


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out = os.environ.get("OUT")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N or cpu (default: %(default)s)")
    parser.add_argument("--tiny", action="store_true", help="a model of two small layers")
    parser.add_argument("--budget", type=float, default=450, metavar="SECONDS", help="default: %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", default=Path(out) / "gpu.json" if out else None)
    return parser.parse_args()


def main() -> None:
    """Measure, print, write."""
    asked = arguments()
    budget = Budget(asked.budget)
    plan = SMALL if asked.tiny else FULL
    import torch

    if asked.device.startswith("cuda") and not torch.cuda.is_available():
        raise SystemExit("torch finds no CUDA device; `--tiny --device cpu` tries this script out without one")
    facts = setting("torch", "transformers", "bitsandbytes") | {"cuda": torch.version.cuda}
    results = Results()

    def save() -> None:
        write_json(asked.json, document(plan, facts, results), announced=False)

    measure(plan, asked.device, budget, results, save)
    shape, best = shape_of(plan.config), attainable(results.ceilings)
    device = results.facts.get("attainable", {}).get("device", asked.device)
    shown = "tiny model" if asked.tiny else "Llama-3.1-8B's shape"
    print(f"\n{shown}, random weights · {device} · {setting_line(facts)}")
    print("\n".join(lines(plan, shape, best, results)))
    write_json(asked.json, document(plan, facts, results))


if __name__ == "__main__":
    main()
