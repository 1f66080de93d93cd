"""The result of a bench: `llmcli.bench/1`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llmcli.bench.plan import Plan
from llmcli.bench.spread import STABLE_BELOW, Spread, rates_of, spread_of
from llmcli.inference import ModelInfo
from llmcli.metrics.host import Host
from llmcli.metrics.phases import dominant, shares_of, sum_of
from llmcli.metrics.rates import Percentiles, inter_token_latency
from llmcli.metrics.record import Ceiling, Memory, Model, Phases, RequestRecord, model_of

SCHEMA = "llmcli.bench/1"


@dataclass(frozen=True, slots=True)
class Repetition:
    """One measured request, and the gaps between its tokens in milliseconds."""

    record: RequestRecord
    gaps_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PrefillResult:
    """Seconds of every repetition, and evaluated tokens per second."""

    seconds: tuple[float, ...]
    tps: Spread


@dataclass(frozen=True, slots=True)
class DecodeResult:
    """Seconds of every repetition, (n-1) tokens per second, and percentiles over all gaps between tokens."""

    seconds: tuple[float, ...]
    tps: Spread
    itl_ms: Percentiles


@dataclass(frozen=True, slots=True)
class TestResult:
    """One test. stable: None after a single repetition, else whether both rates vary by 5 % at most."""

    name: str
    prompt_len: int
    out_len: int
    depth: int
    batch: int
    repeats: int
    warmup: int
    prefill: PrefillResult
    decode: DecodeResult
    ttft_seconds: Spread
    phases: Phases
    ceiling: Ceiling
    memory: Memory
    cache_hits: int
    stable: bool | None


@dataclass(frozen=True, slots=True)
class BenchResult:
    """Everything that `llmcli bench` measured, and what it was measured on."""

    schema: str
    host: Host
    model: Model
    settings: dict[str, Any]
    tests: tuple[TestResult, ...]


def test_result(plan: Plan, repetitions: Sequence[Repetition]) -> TestResult:
    """The result of at least one repetition of `plan`."""
    records = [repetition.record for repetition in repetitions]
    gaps = (gap for repetition in repetitions for gap in repetition.gaps_ms)
    prefill = tuple(record.seconds.prefill for record in records)
    decode = tuple(record.seconds.decode or 0.0 for record in records)
    prefill_tps, decode_tps = rates_of(plan.prompt_len, prefill), rates_of(plan.out_len - 1, decode)
    return TestResult(
        name=plan.name,
        prompt_len=plan.prompt_len,
        out_len=plan.out_len,
        depth=0,
        batch=1,
        repeats=len(records),
        warmup=plan.warmup,
        prefill=PrefillResult(prefill, prefill_tps),
        decode=DecodeResult(decode, decode_tps, inter_token_latency(gaps)),
        ttft_seconds=spread_of([record.seconds.ttft or 0.0 for record in records]),
        phases=_phases(records),
        ceiling=records[0].ceiling,
        memory=_memory(records),
        cache_hits=sum(record.tokens.cached > 0 for record in records),
        stable=_stable(prefill_tps, decode_tps),
    )


def bench_result(info: ModelInfo, host: Host, tests: Sequence[TestResult]) -> BenchResult:
    """Results with the machine, the model and the settings that they hold for."""
    settings = {
        "threads": info.threads,
        "sampling": "greedy",
        "ids": "random",
        "speculation": info.speculation,
        "versions": info.versions,
    }
    return BenchResult(SCHEMA, host, model_of(info), settings, tuple(tests))


def _phases(records: Sequence[RequestRecord]) -> Phases:
    """Shares of the time of all repetitions together."""
    seconds = sum_of([record.seconds for record in records])
    shares = shares_of(seconds)
    return Phases(shares, dominant(seconds, shares))


def _memory(records: Sequence[RequestRecord]) -> Memory:
    peaks = [record.memory.peak_bytes for record in records if record.memory.peak_bytes is not None]
    held = [record.memory.kv_bytes for record in records if record.memory.kv_bytes is not None]
    return Memory(max(peaks, default=None), max(held, default=None))


def _stable(*rates: Spread) -> bool | None:
    relative = [rate.relative for rate in rates if rate.relative is not None]
    return all(value <= STABLE_BELOW for value in relative) if relative else None
