"""From the seconds of a run of peers.py to rates, ratios, targets and shares of the ceiling."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ceiling import Attainable, attainable
from model_shape import Shape
from rounds import Judged, Spread, Target, Values, columns, judge, spread_of

PROMPT, STEPS, ROWS = 512, 64, 4
FIGURES = {
    "prefill": ("prefill 512", PROMPT),
    "decode_0": ("decode @0", STEPS),
    "decode_512": ("decode @512", STEPS),
    "batch_0": ("batch 4 @0", ROWS * STEPS),
}
"""figure -> its heading, and the tokens that its seconds are of."""
VLLM_SHARE = 67 / 101
"""vLLM 0.32 on a CPU, bf16, batch 1: 67 tok/s at depth 512 where llama.cpp's wheel does 101 (2 cores, Zen 5)."""


@dataclass(slots=True)
class Run:
    """What a run has measured: seconds of every engine and figure by round, and what disturbed it."""

    rounds: int
    seconds: dict[str, dict[str, list[float | None]]] = field(default_factory=dict)
    ceilings: list[dict[str, float]] = field(default_factory=list)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    measured: int = 0
    disturbed: list[str] = field(default_factory=list)
    patience: float = 120.0
    """Seconds that are left to wait for an idle machine."""

    def note(self, engine: str, figure: str, number: int, seconds: float) -> None:
        """Keep a value of round `number`."""
        series = self.seconds.setdefault(engine, {}).setdefault(figure, [None] * self.rounds)
        series[number] = seconds


def rates(run: Run) -> dict[str, dict[str, list[float | None]]]:
    """Tokens per second, and under `overhead` the seconds of llmcli's whole way ÷ those of its bare decode path."""
    found: dict[str, dict[str, list[float | None]]] = {}
    for engine, series in run.seconds.items():
        found[engine] = {
            figure: [tokens / value if value else None for value in series[figure]]
            for figure, (_, tokens) in FIGURES.items()
            if figure in series
        }
        found[engine] |= {figure: series[figure] for figure in ("bare", "full") if figure in series}
    return found


def targets(names: Sequence[str]) -> Iterator[Target]:
    """What has to be reached, for those engines that were asked for."""
    ours = [name for name in names if name.endswith(("-eager", "-compiled"))]
    for name in ours:
        yield Target(f"{name}: prefill 512 ≥ 3 × llama.cpp", (name, "prefill"), ("llama.cpp", "prefill"), 3)
    deep = "decode_512"
    fast, plain = "int4-compiled", "int4-eager"
    if fast in ours:
        yield Target(f"{fast}: decode at 512 ≥ 1.3 × llama.cpp", (fast, deep), ("llama.cpp", deep), 1.3)
        yield Target(f"{fast}: decode at 512 ≥ 2.5 × transformers", (fast, deep), ("transformers", deep), 2.5)
    if plain in ours:
        yield Target(f"{plain}: decode at 512 ≥ 0.75 × llama.cpp", (plain, deep), ("llama.cpp", deep), 0.75)
    if "bf16-compiled" in ours:
        note = f"vLLM's bf16: {VLLM_SHARE:.2f}, measured elsewhere"
        over = ("bf16-compiled", deep)
        yield Target("bf16-compiled: decode at 512 ÷ llama.cpp", over, ("llama.cpp", deep), None, note=note)
    for name in ours:
        yield Target(f"{name}: batch 4 ≥ 2 × batch 1 at depth 0", (name, "batch_0"), (name, "decode_0"), 2)
    for name in ours:
        text = f"{name}: streaming and measuring ≤ 1.02 × the bare decode path"
        yield Target(text, (name, "full"), (name, "bare"), 1.02, at_most=True)


def ceilings(streamed: int | None, shape: Shape, best: Attainable) -> dict[str, float]:
    """The most tokens per second that the machine allows, by figure."""
    found = {"prefill": PROMPT * best.flops / shape.prefill_flops(PROMPT)}
    if streamed is not None:
        for figure, depth in (("decode_0", 0), ("decode_512", PROMPT)):
            found[figure] = best.bandwidth / (streamed + shape.kv_bytes(depth + STEPS // 2))
    return found


def report(run: Run, shape: Shape, names: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """The lines for people, and the results for a JSON document."""
    found, best = rates(run), attainable(run.ceilings)
    limits = {name: ceilings(_streamed(run, name), shape, best) for name in found} if best else {}
    spreads = {name: {figure: spread_of(values) for figure, values in found[name].items()} for name in found}
    judged = [judge(target, found) for target in targets(names)]
    lines = [
        *(f"{name}: {_described(facts)}" for name, facts in run.facts.items()),
        *_ceiling_lines(run, best),
        "",
        "tokens per second: median (least-most), and the share of the ceiling",
        _table(spreads, limits),
        "",
        *_left_out(run),
        "ratios within a round: median (least-most)",
        *(f"  {one.line()}" for one in judged),
        "",
        f"disturbed by other programs: {len(run.disturbed)} of {run.measured} measurements",
        *(f"  {what}" for what in run.disturbed),
    ]
    return lines, _results(run, found, spreads, limits, judged)


def _described(facts: dict[str, Any]) -> str:
    """What an engine runs, in the words of its facts."""
    names = ("file", "dtype", "quant", "decode_path", "attention", "build")
    shown = [str(facts[name]) for name in names if name in facts and (name, facts[name]) != ("quant", "none")]
    return ", ".join((*shown, f"{facts['threads']} threads"))


def _streamed(run: Run, name: str) -> int | None:
    """Bytes of weights that a step reads: transformers' are those of llmcli's bf16."""
    facts = run.facts.get("bf16-eager" if name == "transformers" else name, {})
    return facts.get("streamed_bytes")


def _ceiling_lines(run: Run, best: Attainable | None) -> list[str]:
    if best is None:
        return ["attainable: not measured"]
    reads, products = (spread_of(one[key] / 1e9 for one in run.ceilings) for key in ("read", "matmul"))
    return [f"attainable: read {reads.text(1)} GB/s, bf16 matmul {products.text()} GFLOP/s; the medians count"]


def _table(spreads: dict[str, dict[str, Spread | None]], limits: dict[str, dict[str, float]]) -> str:
    rows = [("", *(heading for heading, _ in FIGURES.values()))]
    for name, figures in spreads.items():
        cells = (_cell(figures.get(figure), limits.get(name, {}).get(figure)) for figure in FIGURES)
        rows.append((name, *cells))
    return columns(rows)


def _cell(spread: Spread | None, limit: float | None) -> str:
    if spread is None:
        return "-"
    return spread.text() + (f" {spread.median / limit:4.0%}" if limit else "")


def _left_out(run: Run) -> list[str]:
    missing = [f"left out: {name}: {why}" for name, why in run.unavailable.items()]
    failed = [f"failed: {what}: {why}" for what, why in run.failed.items()]
    return [*missing, *failed, *([""] if missing or failed else [])]


def _results(
    run: Run,
    found: Values,
    spreads: dict[str, dict[str, Spread | None]],
    limits: dict[str, dict[str, float]],
    judged: Sequence[Judged],
) -> dict[str, Any]:
    engines = [
        {
            "name": name,
            "facts": run.facts.get(name, {}),
            "unavailable": run.unavailable.get(name),
            "figures": {
                figure: {"values": list(values), **(asdict(spread) if (spread := spreads[name][figure]) else {})}
                for figure, values in found.get(name, {}).items()
            },
            "ceiling_tps": limits.get(name, {}),
        }
        for name in (*found, *run.unavailable)
    ]
    return {
        "attainable": run.ceilings,
        "engines": engines,
        "targets": [asdict(one) for one in judged],
        "failed": run.failed,
        "measurements": {"all": run.measured, "disturbed": run.disturbed},
    }
