"""Long prompts on the CPU: peak memory of a prefill, and the time per token at depth.

Usage: python benchmarks/long_prompt.py [--lengths 4096,8192,16384] [--only NAMES] [--threads N] [--json FILE]

The model has the shape of SmolLM2-135M, random weights and room for 32,768 tokens; nothing is downloaded. Every length
is run in a process of its own. The first table sets the growth of the process's memory during the request beside the
K and V that it leaves and beside vocabulary × length × 4 bytes, which the logits of all positions would take. The last
one has the milliseconds per decode step at depth 0 and at each length, for every decode path that is there. Takes about
4 minutes per decode path, most of it at the greatest length.
"""

import argparse
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from model_shape import shape_of
from peer_engines import VARIANTS, require_path, run_request
from random_model import SMOLLM2_LONG, write_filled
from rounds import columns
from setting import default_threads, setting, setting_line, write_json
from workers import Unavailable, Worker, wait_until_idle

from llmcli.inference import DecodeChoice, LoadRequest, QuantChoice
from llmcli.units import bytes_text

STEPS = 16
TIMEOUT = 1200


class Engine:
    """llmcli with one decode path, on its own in a process whose memory is watched."""

    def __init__(self, directory: str, quant: QuantChoice, decode: DecodeChoice) -> None:
        from llmcli.engine.start import start_engine

        path = Path(directory)
        self._engine = start_engine(
            LoadRequest(path, path.name, "random", quant=quant, device="cpu", weights_only=True, decode=decode)
        )
        require_path(self._engine, quant, decode)
        run_request(self._engine, 64, 2)
        self.facts = {"chunk": self._engine._loaded.chunk}

    def request(self, prompt: int) -> dict[str, float]:
        """Seconds of prefill and of STEPS decode steps; bytes of K and V, and by how much memory grew at most."""
        with Peak() as peak:
            found = run_request(self._engine, prompt, STEPS)
        return found | {"growth": float(peak.growth)}


class Peak:
    """The most resident memory of this process above that at the start, in bytes, looked at every 2 ms."""

    def __enter__(self) -> "Peak":
        self._process = psutil.Process()
        self._start = self._most = self._process.memory_info().rss
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watcher.join()

    @property
    def growth(self) -> int:
        """Bytes."""
        return self._most - self._start

    def _watch(self) -> None:
        while not self._over.wait(0.002):
            self._most = max(self._most, self._process.memory_info().rss)


@dataclass(slots=True)
class Results:
    """path -> prompt length -> what `Engine.request` found; why others are missing."""

    found: dict[str, dict[int, dict[str, float]]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def measure(directory: Path, names: list[str], lengths: list[int], threads: int, results: Results) -> None:
    """Every length on every path, each in a process of its own; a path that is not there is left out."""
    for name in names:
        for length in (1, *lengths):
            try:
                worker = Worker(Engine, str(directory), *VARIANTS[name], threads=threads)
            except Unavailable as error:
                results.missing[name] = str(error)
                break
            try:
                wait_until_idle(10)
                reply = worker.ask("request", length, timeout=TIMEOUT)
                results.found.setdefault(name, {})[length] = reply.value | {"others": reply.others}
                print(f"{name} at {length}: {reply.seconds:.0f} s, others took {reply.others:.0%}", flush=True)
            except Unavailable as error:
                results.missing[f"{name} at {length}"] = str(error)
            finally:
                worker.close()


def memory_rows(found: dict[int, dict[str, float]], vocabulary: int) -> list[tuple[str, ...]]:
    """Length, prefill, growth of memory, K and V, what the logits of all positions would take."""
    rows = [("tokens", "prefill", "memory grew by", "K and V", "growth ÷ K and V", "vocabulary × length × 4 B")]
    for length, one in found.items():
        if length > 1:
            rows.append(
                (
                    str(length),
                    f"{one['prefill']:.1f} s {length / one['prefill']:.0f} tok/s",
                    bytes_text(int(one["growth"])),
                    bytes_text(int(one["kv_bytes"])),
                    f"{one['growth'] / one['kv_bytes']:.2f}",
                    bytes_text(vocabulary * length * 4),
                )
            )
    return rows


def growth_line(found: dict[int, dict[str, float]], vocabulary: int) -> str:
    """What the tokens between the least and the greatest length added to the memory, beside what they had to add."""
    least, most = min(length for length in found if length > 1), max(found)
    if least == most:
        return ""
    growth, held = (int(found[most][key] - found[least][key]) for key in ("growth", "kv_bytes"))
    return (
        f"from {least} to {most} tokens: {bytes_text(growth)} more, {growth / held:.2f} × what K and V grew by; "
        f"the logits of all positions would have added {bytes_text(vocabulary * (most - least) * 4)}"
    )


def step_rows(results: Results, lengths: list[int]) -> list[tuple[str, ...]]:
    """Milliseconds per decode step, a row per path."""
    rows = [("ms per token", *(f"depth {length if length > 1 else 0}" for length in (1, *lengths)))]
    for name, found in results.found.items():
        cells = (found.get(length) for length in (1, *lengths))
        rows.append((name, *(f"{cell['decode'] / STEPS * 1000:.1f}" if cell else "-" for cell in cells)))
    return rows


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", default="4096,8192,16384", metavar="LIST", help="default: %(default)s")
    parser.add_argument("--only", default=",".join(VARIANTS), metavar="NAMES", help="default: %(default)s")
    parser.add_argument("--threads", type=int, default=default_threads(), help="default: %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args()
    asked.names = asked.only.split(",")
    try:
        asked.lengths = [int(length) for length in asked.lengths.split(",")]
    except ValueError:
        parser.error(f"--lengths {asked.lengths}: a comma list of token counts")
    if unknown := sorted(set(asked.names) - set(VARIANTS)):
        parser.error(f"--only: {', '.join(unknown)}: not one of {', '.join(VARIANTS)}")
    if min(asked.lengths) < 2 or max(asked.lengths) + STEPS >= SMOLLM2_LONG["max_position_embeddings"]:
        parser.error(f"--lengths: from 2 to {SMOLLM2_LONG['max_position_embeddings'] - STEPS - 1}")
    return asked


def main() -> None:
    """Measure, print, write."""
    asked = arguments()
    facts: dict[str, Any] = setting("torch", "transformers") | {"threads": asked.threads}
    results = Results()
    with tempfile.TemporaryDirectory() as folder:
        directory = write_filled(Path(folder) / "random", SMOLLM2_LONG)
        measure(directory, asked.names, asked.lengths, asked.threads, results)
    vocabulary = shape_of(SMOLLM2_LONG).vocabulary
    print(f"\nSmolLM2-135M's shape, random weights, {asked.threads} threads · {setting_line(facts)}")
    for name, found in results.found.items():
        if max(found) > 1:
            print(f"\n{name}: memory\n{columns(memory_rows(found, vocabulary))}\n{growth_line(found, vocabulary)}")
    print(f"\n{columns(step_rows(results, asked.lengths))}")
    for name, why in results.missing.items():
        print(f"left out: {name}: {why}")
    document = {"schema": "llmcli.long_prompt/1", **facts, "steps": STEPS, "vocabulary": vocabulary}
    write_json(asked.json, document | {"found": results.found, "missing": results.missing})


if __name__ == "__main__":
    main()
