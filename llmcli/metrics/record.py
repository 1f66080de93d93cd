"""The request record: `llmcli.request/1`, the same for chat, the log and every client."""

import uuid
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from llmcli.inference import GenerateRequest, ModelInfo, Trace
from llmcli.metrics.phases import Delivery, Seconds, Shares, dominant, seconds_of, shares_of
from llmcli.metrics.rates import Percentiles, Rates, gaps_ms, inter_token_latency, rates_of
from llmcli.metrics.roofline import bytes_per_step

SCHEMA = "llmcli.request/1"


@dataclass(frozen=True, slots=True)
class Model:
    """What ran. Fields that are not known are None."""

    name: str
    source: str
    revision: str | None
    architecture: str
    params: int
    active_params: int | None
    quant: str
    dtype: str
    weight_bytes: int
    device: str
    attention: str
    decode_path: str
    context_limit: int


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token counts: prompt = cached + evaluated; `steps` are decode forwards.

    batch: sequences that ran beside each other; all other counts of tokens are sums over them. drafted, accepted:
    tokens that speculation proposed, and those of them that became part of the answer.
    cache_break_at: the position of the first id in which a cache differed from the prompt, None where none did.
    """

    prompt: int
    cached: int
    evaluated: int
    truncated: int
    generated: int
    steps: int
    drafted: int = 0
    accepted: int = 0
    cache_break_at: int | None = None
    batch: int = 1

    @property
    def decoded(self) -> int:
        """Tokens that decode made: n-1 of each sequence, whose first one comes from prefill."""
        return max(0, self.generated - self.batch)


@dataclass(frozen=True, slots=True)
class Phases:
    """Shares of total and the largest of them."""

    shares: Shares
    dominant: str


@dataclass(frozen=True, slots=True)
class FlopsPerToken:
    """Floating-point operations per token."""

    prefill: float | None = None
    decode: float | None = None


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What the device could do, None where it was not measured.

    bytes_per_step: weights, once, and KV cache of all sequences that the last decode step read.
    """

    prefill_tps: float | None = None
    generation_tps: float | None = None
    bytes_per_step: int | None = None
    flops_per_token: FlopsPerToken = field(default_factory=FlopsPerToken)
    mbu: float | None = None
    mfu: float | None = None
    bound: str | None = None


@dataclass(frozen=True, slots=True)
class CacheUse:
    """Where cached tokens came from, how long ago that cache was last used, and why not all of it served."""

    source: str = "none"
    age_s: float | None = None
    miss_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes: CUDA's peak allocation of this request (elsewhere the process's peak resident size); the KV cache."""

    peak_bytes: int | None
    kv_bytes: int | None


@dataclass(frozen=True, slots=True)
class Failure:
    """What ended a request that failed."""

    type: str
    message: str


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request. Every field is always present, also after an interrupt."""

    schema: str
    id: str
    started_at: str
    command: str
    engine: str
    model: Model
    tokens: Tokens
    seconds: Seconds
    rates: Rates
    itl_ms: Percentiles
    phases: Phases
    ceiling: Ceiling
    cache: CacheUse
    memory: Memory
    finish_reason: str
    sampling: dict[str, Any]
    versions: dict[str, str]
    error: Failure | None


def model_of(info: ModelInfo, decode_path: str | None = None) -> Model:
    """The record's view of a loaded model. decode_path: the one that served a request, where it is another."""
    return Model(
        name=info.name,
        source=info.source,
        revision=info.revision,
        architecture=info.architecture,
        params=info.params,
        active_params=None,
        quant=info.quant,
        dtype=info.dtype,
        weight_bytes=info.weight_bytes,
        device=info.device,
        attention=info.attention,
        decode_path=decode_path or info.decode_path,
        context_limit=info.context_limit,
    )


def ceiling_of(info: ModelInfo, kv_bytes: int | None) -> Ceiling:
    """The bytes that a decode step reads at the depth where the cache holds `kv_bytes`."""
    if info.streamed_bytes is None or not kv_bytes:
        return Ceiling()
    return Ceiling(bytes_per_step=bytes_per_step(info.streamed_bytes, kv_bytes))


def record_of(
    info: ModelInfo,
    request: GenerateRequest,
    trace: Trace,
    delivery: Delivery,
    *,
    command: str,
    started_at: datetime,
) -> RequestRecord:
    """Everything that is known of a request, derived from its trace and its delivery.

    started_at: wall-clock time in UTC of its submission.
    """
    seconds = seconds_of(trace, delivery)
    shares = shares_of(seconds)
    error = trace.error
    return RequestRecord(
        schema=SCHEMA,
        id=uuid.uuid4().hex,
        started_at=started_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        command=command,
        engine="transformers",
        model=model_of(info, trace.decode_path),
        tokens=_tokens(trace),
        seconds=seconds,
        rates=rates_of(trace, seconds, delivery.chars),
        itl_ms=inter_token_latency(gaps_ms(trace.arrivals)),
        phases=Phases(shares, dominant(seconds, shares)),
        ceiling=ceiling_of(info, trace.kv_bytes),
        cache=CacheUse(trace.cache_source, trace.cache_age, trace.miss_reason),
        memory=Memory(trace.peak_bytes, trace.kv_bytes),
        finish_reason=trace.finish_reason,
        sampling=_sampling(request),
        versions=info.versions,
        error=None if error is None else Failure(type(error).__name__, error.message),
    )


def _tokens(trace: Trace) -> Tokens:
    rows = trace.batch
    return Tokens(
        prompt=rows * trace.prompt,
        cached=rows * trace.cached,
        evaluated=rows * trace.evaluated,
        truncated=rows * trace.truncated,
        generated=rows * trace.generated,
        steps=trace.steps,
        drafted=rows * trace.drafted,
        accepted=rows * trace.accepted,
        cache_break_at=trace.cache_break_at,
        batch=rows,
    )


def _sampling(request: GenerateRequest) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(request.sampling)
    return {**values, "stop": list(request.stop), "ignore_eos": request.ignore_eos}
