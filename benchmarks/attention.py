"""Decode with transformers' `sdpa` and with the grouped single-query form, in alternation, at several depths.

Usage: python benchmarks/attention.py [MODEL] [--rounds N]

Prints tokens per second of both (median over rounds), and the median and spread of the ratio within a round.
"""

import argparse
import platform
import statistics
import time
from typing import Any

import torch

from llmcli.cli.fetching import find, prepare
from llmcli.engine.attention import NAME
from llmcli.engine.cache import new_cache
from llmcli.engine.decode.eager import forward
from llmcli.engine.load import load
from llmcli.inference import LoadRequest

DEPTHS = (128, 512, 2048)
STEPS = 32


@torch.inference_mode()
def rate(model: Any, attention: str, depth: int) -> float:
    """Tokens per second of STEPS decode steps after `depth` tokens."""
    model.set_attn_implementation(attention)
    cache = new_cache(model.config)
    logits = forward(model, torch.randint(10, 1000, (1, depth)), cache)
    started = time.perf_counter()
    for _ in range(STEPS):
        logits = forward(model, logits.argmax(-1, keepdim=True), cache)
    return STEPS / (time.perf_counter() - started)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    located = find(options.model, None)
    # On this thread: OpenMP's threads no longer wait by spinning once several threads have some.
    loaded = load(LoadRequest(prepare(located), located.name, located.source, decode="eager"), time.perf_counter)
    info, model = loaded.info, loaded.model
    for depth in DEPTHS:
        pairs = [(rate(model, "sdpa", depth), rate(model, NAME, depth)) for _ in range(options.rounds + 1)][1:]
        plain, grouped = (statistics.median(values) for values in zip(*pairs, strict=True))
        ratios = [after / before for before, after in pairs]
        print(
            f"depth {depth:>4}: sdpa {plain:.1f} tok/s, grouped {grouped:.1f} tok/s, "
            f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f} over {len(ratios)} rounds)"
        )
    print(f"{info.name}, {info.dtype}, {info.device}, {info.threads} threads, python {platform.python_version()}")


if __name__ == "__main__":
    main()
