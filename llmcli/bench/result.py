"""The result of a bench: `llmcli.bench/1`, and of several loads of a model: `llmcli.benches/1`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmcli.bench.plan import Plan
from llmcli.bench.spread import STABLE_BELOW, Spread, rates_of, spread_of
from llmcli.errors import LlmcliError
from llmcli.inference import ModelInfo
from llmcli.metrics.host import Host
from llmcli.metrics.phases import dominant, shares_of, sum_of
from llmcli.metrics.rates import Percentiles, inter_token_latency
from llmcli.metrics.record import Ceiling, Failure, Memory, Model, Phases, RequestRecord, model_of

SCHEMA = "llmcli.bench/1"
SEVERAL = "llmcli.benches/1"


@dataclass(frozen=True, slots=True)
class Repetition:
    """One measured request, and the gaps between its tokens in milliseconds."""

    record: RequestRecord
    gaps_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PrefillResult:
    """Seconds of every repetition, and evaluated tokens per second, those of the whole batch."""

    seconds: tuple[float, ...]
    tps: Spread


@dataclass(frozen=True, slots=True)
class DecodeResult:
    """Seconds of every repetition, (n-1) tokens of each sequence per second, and percentiles over the gaps of one."""

    seconds: tuple[float, ...]
    tps: Spread
    itl_ms: Percentiles


@dataclass(frozen=True, slots=True)
class TestResult:
    """One test. repeats: those that are complete. phases: None without any.

    cache_hits: repetitions that found more in the cache than their depth. stable: None after a single repetition, else
    whether both rates vary by 5 % at most. error: what ended the test before all of them. decode_path: the one that
    served it, None without any repetition.
    """

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
    phases: Phases | None
    ceiling: Ceiling
    memory: Memory
    cache_hits: int
    stable: bool | None
    error: Failure | None = None
    decode_path: str | None = None


@dataclass(frozen=True, slots=True)
class BenchResult:
    """Everything that `llmcli bench` measured with one load of a model, and what it was measured on."""

    schema: str
    host: Host
    model: Model
    settings: dict[str, Any]
    tests: tuple[TestResult, ...]


@dataclass(frozen=True, slots=True)
class BenchResults:
    """The same for a model that was loaded in several ways."""

    schema: str
    benches: tuple[BenchResult, ...]


def test_result(  # the result of a test, not a test
    plan: Plan,
    repetitions: Sequence[Repetition],
    error: LlmcliError | None = None,  # noqa: PT028 - as above
) -> TestResult:
    """The result of the complete repetitions of `plan`. error: what ended it before the last one."""
    records = [repetition.record for repetition in repetitions]
    gaps = (gap for repetition in repetitions for gap in repetition.gaps_ms)
    prefill = tuple(record.seconds.prefill for record in records)
    decode = tuple(record.seconds.decode or 0.0 for record in records)
    prefill_tps = rates_of(plan.batch * plan.prompt_len, prefill)
    decode_tps = rates_of(plan.batch * (plan.out_len - 1), decode)
    return TestResult(
        name=plan.name,
        prompt_len=plan.prompt_len,
        out_len=plan.out_len,
        depth=plan.depth,
        batch=plan.batch,
        repeats=len(records),
        warmup=plan.warmup,
        prefill=PrefillResult(prefill, prefill_tps),
        decode=DecodeResult(decode, decode_tps, inter_token_latency(gaps)),
        ttft_seconds=spread_of([record.seconds.ttft or 0.0 for record in records]),
        phases=_phases(records) if records else None,
        ceiling=records[0].ceiling if records else Ceiling(),
        memory=_memory(records),
        cache_hits=sum(record.tokens.cached > plan.batch * plan.depth for record in records),
        stable=_stable(prefill_tps, decode_tps),
        error=None if error is None else Failure(type(error).__name__, error.message),
        decode_path=records[0].model.decode_path if records else None,
    )


def bench_result(
    info: ModelInfo, host: Host, tests: Sequence[TestResult], asked: Mapping[str, str] | None = None
) -> BenchResult:
    """Results with the machine, the model and the settings that they hold for. asked: flags that chose the load."""
    fixed = {
        "threads": info.threads,
        "sampling": "greedy",
        "ids": "random",
        "speculation": info.speculation,
        "versions": info.versions,
    }
    paths = dict.fromkeys(test.decode_path for test in tests if test.decode_path)
    model = model_of(info, ", ".join(paths) or None)
    return BenchResult(SCHEMA, host, model, fixed | dict(asked or {}), tuple(tests))


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
