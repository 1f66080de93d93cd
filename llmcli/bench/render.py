"""A bench result as a table for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llmcli.bench.result import BenchResult, TestResult
from llmcli.bench.spread import Spread
from llmcli.metrics.line import verdict, weights_format
from llmcli.units import bytes_text, count_text, percent_text, seconds_text

if TYPE_CHECKING:
    from rich.table import Table


def title(result: BenchResult) -> str:
    """Model, machine and versions: what a figure has to be quoted with."""
    model, host = result.model, result.host
    versions = result.settings["versions"]
    count = result.settings["threads"]
    drafts = f" · {speculation}" if (speculation := result.settings["speculation"]) else ""
    threads = "1 thread" if count == 1 else f"{count} threads"
    return (
        f"{model.name} from {model.source}\n"
        f"{count_text(model.params)} parameters · {weights_format(model)} · weights {bytes_text(model.weight_bytes)}\n"
        f"{model.device} · {host.cpu} · {threads} · attention {model.attention} · decode {model.decode_path}{drafts}\n"
        f"llmcli {versions['llmcli']} · torch {versions['torch']} · transformers {versions['transformers']}"
    )


def difference(result: BenchResult, first: BenchResult) -> str:
    """The lines of its title in which a further load of the same model is not like the first one."""
    pairs = zip(title(result).splitlines(), title(first).splitlines(), strict=True)
    return "\n".join(line for line, other in pairs if line != other) or _asked(result)


def _asked(result: BenchResult) -> str:
    """The flags that chose the load: all that tells two loads apart which have become the same."""
    return " ".join(f"--{flag} {result.settings[flag]}" for flag in ("quant", "decode") if flag in result.settings)


HEADINGS = ("prefill tok/s", "decode tok/s", "ttft", "ITL ms p50/p99", "dominant")
_GAP = 2


def table(result: BenchResult) -> "Table":
    """One row per test: median ± standard deviation of both rates, the time to the first token, the verdict."""
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    grid.add_column("test", vertical="bottom")
    for name in HEADINGS:
        grid.add_column(_heading(name), justify="right", vertical="bottom")
    for test in result.tests:
        grid.add_row(test.name, *_cells(test))
    return grid


def table_width(result: BenchResult) -> int:
    """Characters a line that the table needs."""
    rows = [("test", *map(_heading, HEADINGS)), *((test.name, *_cells(test)) for test in result.tests)]
    widths = [max(len(line) for cell in column for line in cell.split("\n")) for column in zip(*rows, strict=True)]
    return sum(widths) + _GAP * (len(widths) - 1)


def _heading(name: str) -> str:
    return name.replace(" tok", "\ntok").replace(" p50", "\np50")


def lines(result: BenchResult) -> str:
    """The same, one figure a line, where there is no room for the table."""
    width = max(map(len, HEADINGS))
    blocks = (
        "\n".join((test.name, *(f"{name:<{width}} {cell}" for name, cell in zip(HEADINGS, _cells(test), strict=True))))
        for test in result.tests
    )
    return "\n\n".join(blocks)


def _cells(test: TestResult) -> tuple[str, ...]:
    itl = test.decode.itl_ms
    gaps = "-" if itl.p50 is None or itl.p99 is None else f"{itl.p50:.1f}/{itl.p99:.1f}"
    ttft = "-" if test.ttft_seconds.median is None else seconds_text(test.ttft_seconds.median)
    end = "failed" if test.phases is None else verdict(test.phases)
    return _rate(test.prefill.tps), _rate(test.decode.tps), ttft, gaps, end


def _rate(spread: Spread) -> str:
    if spread.median is None:
        return "-"
    places = 0 if spread.median >= 100 else 1
    deviation = "" if spread.stddev is None else f" ± {spread.stddev:.{places}f}"
    return f"{spread.median:.{places}f}{deviation}"


_REMEDY = "end other programs, lower OMP_NUM_THREADS, or raise --warmup and --repeats"


def unstable(tests: Sequence[TestResult]) -> str | None:
    """A notice with the worst number and the remedy when repetitions of some tests differ too much, else None."""
    shaky = [test for test in tests if test.stable is False]
    if not shaky:
        return None
    test = max(shaky, key=lambda test: _worst(test)[1])
    name, worst = _worst(test)
    count = f"{len(shaky)} of {len(tests)} tests, most of all {test.name}: " if len(tests) > 1 else ""
    varies = f"{name} varies by {percent_text(worst)} of its mean over {test.repeats} repetitions"
    return f"unstable: {count}{varies}; {_REMEDY}"


def _worst(test: TestResult) -> tuple[str, float]:
    rates = (("prefill", test.prefill.tps.relative), ("decode", test.decode.tps.relative))
    return max(((name, value or 0.0) for name, value in rates), key=lambda pair: pair[1])
