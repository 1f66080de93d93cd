"""llmcli, transformers and llama.cpp on the same weights and threads, in alternation in one run (CPU).

Usage: python benchmarks/peers.py [MODEL] [--rounds 5] [--threads N] [--only NAMES] [--json FILE]

MODEL is a GGUF model: an alias or a .gguf file (default: the registry's). llama.cpp reads the file itself, through the
prebuilt wheel xllamacpp (`pip install xllamacpp`; left out where it is not installed) and reports its server's own
timings. llmcli and transformers read the directory that llmcli has converted it into; transformers runs `generate` in
bf16 with a streamer that notes when each token comes. Every engine has a process of its own and sleeps while another
one measures; their order rotates. Prompts are fresh random ids, no prefix cache helps, every answer has exactly 65
tokens. Before each measurement the run waits for an idle machine, two minutes in all; one during which other programs
took more than 3 % of the machine is made again, twice at most.

Prints medians and (least-most), ratios within the same round beside their targets, and the share of the ceiling: the
read bandwidth and bf16 matrix products that torch attains on this machine in the same run. Takes about 5 minutes.
"""

import argparse
import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ceiling import Ceiling
from model_shape import Shape, shape_at
from peer_engines import VARIANTS, LlamaCpp, Llmcli, Transformers
from peers_report import PROMPT, ROWS, STEPS, Run, report
from setting import default_threads, setting, setting_line, write_json
from workers import DISTURBED, Reply, Unavailable, Worker, wait_until_idle

from llmcli.cli.fetching import find, prepare
from llmcli.models.locate import Located
from llmcli.models.store import slot

TRIES = 3
NAMES = ("llama.cpp", "transformers", *VARIANTS)


@dataclass(frozen=True, slots=True)
class Subject:
    """The model that is measured: where it lies, what it looks like, and the threads of every engine."""

    located: Located
    directory: Path
    shape: Shape
    threads: int

    @property
    def gguf(self) -> Path:
        """The file that llama.cpp reads. Raises Unavailable for a model that has none."""
        if self.located.kind == "wheel":
            return slot(self.located).original
        if self.located.kind == "gguf" and self.located.original is not None:
            return self.located.original
        raise Unavailable(f"{self.located.name} is no GGUF file")

    def start(self, name: str) -> Worker:
        """An engine in a process of its own. Raises Unavailable with the reason when it is not there."""
        if name == "llama.cpp":
            build: tuple[Any, ...] = (LlamaCpp, str(self.gguf), self.threads, self.shape.vocabulary)
        elif name == "transformers":
            build = (Transformers, str(self.directory))
        else:
            build = (Llmcli, self.located.argument, *VARIANTS[name])
        return Worker(*build, threads=self.threads, timeout=600)


def start_workers(names: list[str], subject: Subject, run: Run) -> dict[str, Worker]:
    """The engines that are there, loaded one after the other; why the others are not is noted in `run`."""
    workers = {}
    for name in names:
        print(f"loading {name} …", flush=True)
        try:
            workers[name] = subject.start(name)
            run.facts[name] = workers[name].facts
        except Unavailable as error:
            run.unavailable[name] = str(error)
            print(f"  left out: {error}", flush=True)
    return workers


def requests(name: str) -> Iterator[tuple[str, tuple[Any, ...], dict[str, str]]]:
    """What an engine is asked in a round: method, arguments, and what the seconds in its answer are figures of."""
    yield "request", (1, STEPS), {"decode": "decode_0"}
    yield "request", (PROMPT, STEPS), {"prefill": "prefill", "decode": "decode_512"}
    if name in VARIANTS:
        yield "request", (1, STEPS, ROWS), {"decode": "batch_0"}
        yield "overhead", (1, STEPS), {"bare": "bare", "full": "full"}


def warm_up(workers: dict[str, Worker]) -> None:
    """Every kind of request once, so that kernels and caches are set up; what fails here fails again later."""
    for name, worker in workers.items():
        for method, given, _ in requests(name):
            if method == "request":
                with contextlib.suppress(Unavailable):
                    worker.ask(method, *given)


def one_round(workers: dict[str, Worker], number: int, run: Run) -> None:
    """Every request on every engine; engines alternate within a request, and another one begins in every round."""
    order = list(workers)[number % len(workers) :] + list(workers)[: number % len(workers)]
    plans = {name: list(requests(name)) for name in order}
    for at in range(max(map(len, plans.values()))):
        for name in (name for name in order if at < len(plans[name])):
            method, given, figures = plans[name][at]
            what = f"{name} {'/'.join(figures.values())}"
            try:
                seconds = measured(workers[name], method, given, run, f"{what}, round {number + 1}")
            except Unavailable as error:
                run.failed[what] = str(error)
                continue
            for key, figure in figures.items():
                run.note(name, figure, number, seconds[key])


def measured(worker: Worker, method: str, given: tuple[Any, ...], run: Run, what: str) -> dict[str, float]:
    """An answer; when others disturb it, the least disturbed one of three."""
    replies: list[Reply] = []
    while not replies or (len(replies) < TRIES and replies[-1].others > DISTURBED):
        run.patience -= wait_until_idle(run.patience)
        replies.append(worker.ask(method, *given))
    reply = min(replies, key=lambda one: one.others)
    run.measured += 1
    if reply.others > DISTURBED:
        run.disturbed.append(f"{what} ({reply.others:.0%})")
    return reply.value


def measure(workers: dict[str, Worker], ceiling: Worker, run: Run) -> None:
    """Warm up, then the rounds that count."""
    warm_up(workers)
    for number in range(run.rounds):
        started = time.perf_counter()
        wait_until_idle(5)
        run.ceilings.append(ceiling.ask("measure").value)
        one_round(workers, number, run)
        print(f"round {number + 1} of {run.rounds}: {time.perf_counter() - started:.0f} s", flush=True)


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", metavar="MODEL")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=default_threads(), help="of every engine (default: %(default)s)")
    parser.add_argument("--only", metavar="NAMES", help=f"comma list of {', '.join(NAMES)}")
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args()
    asked.names = asked.only.split(",") if asked.only else list(NAMES)
    if unknown := sorted(set(asked.names) - set(NAMES)):
        parser.error(f"--only: {', '.join(unknown)}: not one of {', '.join(NAMES)}")
    if asked.rounds < 1 or asked.threads < 1:
        parser.error("--rounds and --threads: at least 1")
    return asked


def main() -> None:
    """Measure, print, write."""
    asked = arguments()
    located = find(asked.model, None)
    directory = prepare(located)
    subject = Subject(located, directory, shape_at(directory), asked.threads)
    facts = setting("torch", "transformers", "xllamacpp")
    if facts["load"] and facts["load"] > 0.5:
        print(f"notice: the machine is not idle (load {facts['load']:.1f}): figures will suffer, llama.cpp's the most")
    run = Run(asked.rounds)
    ceiling = Worker(Ceiling, threads=asked.threads)
    workers = start_workers(asked.names, subject, run)
    if not workers:
        raise SystemExit("no engine is there to be measured")
    try:
        measure(workers, ceiling, run)
    finally:
        for worker in (*workers.values(), ceiling):
            worker.close()
    document = {
        "schema": "llmcli.peers/1",
        **facts,
        "threads": asked.threads,
        "model": {"name": located.name, "source": located.source, "file": directory.parent.name},
        "settings": {"rounds": asked.rounds, "prompt": PROMPT, "steps": STEPS, "rows": ROWS},
    }
    lines, results = report(run, subject.shape, asked.names)
    print(f"\n{located.name}, {asked.rounds} rounds, {asked.threads} threads · {setting_line(facts)}\n")
    print("\n".join(lines))
    write_json(asked.json, document | results)


if __name__ == "__main__":
    main()
