"""Tokens and seconds to rates. A rate whose count or time is missing is None, never a guess."""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from llmcli.inference import Trace
from llmcli.metrics.phases import Seconds


@dataclass(frozen=True, slots=True)
class Rates:
    """Tokens per second of prompt evaluation and generation; characters of the answer per second of decode."""

    prompt_eval_tps: float | None
    generation_tps: float | None
    chars_per_second: float | None


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Inter-token latency in milliseconds: the gaps between consecutive arrivals."""

    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None


def per_second(count: float, seconds: float | None) -> float | None:
    """`count` ÷ `seconds`; None when either is missing or not positive."""
    return count / seconds if seconds and seconds > 0 and count > 0 else None


def rates_of(trace: Trace, seconds: Seconds, chars: int) -> Rates:
    """Rates of one request: evaluated ÷ prefill and (n-1) ÷ decode. n tokens are n-1 decode steps.

    Rates of tokens are totals over the sequences of a batch. chars_per_second is that of the first of them, whose text
    it is: characters per generated token times its generation rate, so that the first token, which comes from prefill,
    does not raise it.
    """
    finished_prefill = trace.arrivals or trace.evaluated == trace.prompt - trace.cached
    generation = per_second(trace.batch * (trace.generated - 1), seconds.decode)
    return Rates(
        prompt_eval_tps=per_second(trace.batch * trace.evaluated, seconds.prefill) if finished_prefill else None,
        generation_tps=generation,
        chars_per_second=None if generation is None else generation / trace.batch * chars / trace.generated,
    )


def gaps_ms(arrivals: Sequence[float]) -> tuple[float, ...]:
    """The n-1 gaps of n arrivals (seconds), in milliseconds."""
    return tuple((after - before) * 1000 for before, after in itertools.pairwise(arrivals))


def inter_token_latency(gaps: Iterable[float]) -> Percentiles:
    """Percentiles over gaps between arrivals in milliseconds; all None without gaps."""
    ordered = sorted(gaps)
    if not ordered:
        return Percentiles(None, None, None, None)
    return Percentiles(*(percentile(ordered, share) for share in (0.5, 0.95, 0.99, 1.0)))


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the sorted values lie, linearly interpolated."""
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)
