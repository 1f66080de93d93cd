"""From the seconds of a run of gpu.py to rates, shares of what the device attains, and targets."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from ceiling import Attainable
from model_shape import Shape
from rounds import Judged, Target, columns, judge, spread_of

Series = dict[str, dict[str, list[float | None]]]
_DEVICE = "the device"


LEAST_SECONDS = 40
"""A part is not begun with less of the budget left: loading 16 GB alone takes half of it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Token counts, and the sizes that the device is measured with (None: those of its kind)."""

    config: dict[str, Any]
    depth: int = 512
    steps: int = 128
    prefill: int = 2048
    buffer: int | None = None
    matrix: int | None = None
    least_seconds: float = LEAST_SECONDS


@dataclass(slots=True)
class Results:
    """What has been measured so far. seconds: part -> figure -> one value per repetition."""

    ceilings: list[dict[str, float]] = field(default_factory=list)
    seconds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def series_of(plan: Plan, shape: Shape, best: Attainable | None, results: Results) -> Series:
    """Part -> figure -> values: decode and prefill in tokens per second, what they read (bytes/s) and compute (FLOP/s).

    The device itself is a part as well, so that shares are ratios of two parts.
    """
    found: Series = {}
    repeats = max((len(one.get("decode", ())) for one in results.seconds.values()), default=0)
    if best is not None:
        found[_DEVICE] = {"bandwidth": [best.bandwidth] * repeats, "flops": [best.flops] * repeats}
    for name, seconds in results.seconds.items():
        values: dict[str, list[float | None]] = {}
        decode, prefill = seconds.get("decode", []), seconds.get("prefill", [])
        values["decode"] = [plan.steps / value for value in decode]
        values["prefill"] = [plan.prefill / value for value in prefill]
        values["flops"] = [shape.prefill_flops(plan.prefill) / value for value in prefill]
        if (streamed := _streamed(results, name)) is not None:
            step = streamed + shape.kv_bytes(plan.depth + plan.steps // 2)
            values["bandwidth"] = [step * plan.steps / value for value in decode]
        found[name] = values
    return found


def _streamed(results: Results, name: str) -> int | None:
    """Bytes of weights that a step reads: transformers' are those of llmcli's bf16."""
    sources = ("bf16-eager", "bf16-graph", "bf16-compiled") if name == "transformers" else (name,)
    found = (results.facts.get(source, {}).get("streamed_bytes") for source in sources)
    return next((size for size in found if size is not None), None)


def targets() -> Iterator[Target]:
    """What has to be reached."""
    for name in ("bf16-graph", "bf16-compiled"):
        text = f"{name}: decode ≥ 80 % of attainable bandwidth"
        yield Target(text, (name, "bandwidth"), (_DEVICE, "bandwidth"), 0.8)
        yield Target(f"{name}: decode ≥ 3 × transformers", (name, "decode"), ("transformers", "decode"), 3)
        yield Target(f"{name}: decode ÷ own eager", (name, "decode"), ("bf16-eager", "decode"), None)
    for name in ("bf16-graph", "bf16-eager"):
        yield Target(f"{name}: prefill ≥ 60 % of attainable FLOP/s", (name, "flops"), (_DEVICE, "flops"), 0.6)
    yield Target("nf4-graph: decode ≥ 1.3 × bf16-graph", ("nf4-graph", "decode"), ("bf16-graph", "decode"), 1.3)


def lines(plan: Plan, shape: Shape, best: Attainable | None, results: Results) -> Iterator[str]:
    """The report for people."""
    found = series_of(plan, shape, best, results)
    yield ""
    if best is None:
        yield "attainable: not measured"
    else:
        yield f"attainable: {best.bandwidth / 1e9:.0f} GB/s, bf16 matmul {best.flops / 1e12:.1f} TFLOP/s"
    yield ""
    yield columns([_headings(plan), *(_row(name, found, best, results) for name in results.seconds)])
    yield ""
    yield from (f"left out: {name}: {why}" for name, why in results.failed.items())
    yield "targets: median (least-most)"
    yield from (f"  {judge(target, found).line()}" for target in targets())


def _headings(plan: Plan) -> tuple[str, ...]:
    decode = f"decode @{plan.depth} tok/s"
    return ("", decode, "GB/s", "share", f"prefill {plan.prefill} tok/s", "TFLOP/s", "share", "first request")


def _row(name: str, found: Series, best: Attainable | None, results: Results) -> tuple[str, ...]:
    values = {figure: spread_of(series) for figure, series in found[name].items()}
    decode, prefill = (values[figure].text(1) if values.get(figure) else "-" for figure in ("decode", "prefill"))
    reads = _figure(values.get("bandwidth"), best and best.bandwidth, 1e9)
    computes = _figure(values.get("flops"), best and best.flops, 1e12)
    return (name, decode, *reads, prefill, *computes, _first(results.seconds[name]))


def _figure(spread: Any, limit: float | None, unit: float) -> tuple[str, str]:
    if spread is None:
        return "-", "-"
    return f"{spread.median / unit:.1f}", f"{spread.median / limit:.0%}" if limit else "-"


def _first(seconds: dict[str, list[float]]) -> str:
    """What the first request's decode took beyond the others': capture or compilation, and setting kernels up."""
    later = spread_of(seconds.get("decode", ()))
    return "-" if later is None else f"+{max(0.0, seconds['first'][0] - later.median):.2f} s"


def figures(plan: Plan, shape: Shape, best: Attainable | None, results: Results) -> dict[str, Any]:
    """Rates and judged targets, for a program."""
    found = series_of(plan, shape, best, results)
    judged: list[Judged] = [judge(target, found) for target in targets()]
    return {"series": found, "targets": [asdict(one) for one in judged]}
