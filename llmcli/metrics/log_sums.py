"""Sums over requests, and the rates and shares that follow from them. Pure."""

from collections import Counter
from dataclasses import dataclass

from llmcli.metrics.phases import Seconds, dominant, shares_of, sum_of
from llmcli.metrics.rates import per_second, percentile
from llmcli.metrics.record import Phases, RequestRecord


@dataclass(frozen=True, slots=True)
class TokenSums:
    """Sums of token counts over all requests."""

    prompt: int
    cached: int
    evaluated: int
    generated: int


@dataclass(frozen=True, slots=True)
class Rate:
    """Σ tokens ÷ Σ seconds over the requests that have this rate; None without any."""

    requests: int
    tokens: int
    seconds: float
    tps: float | None


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Seconds of the requests that had a first token; None without any."""

    p50: float | None
    p95: float | None


@dataclass(frozen=True, slots=True)
class Totals:
    """Some requests together.

    seconds: sums over all of them. prefill: evaluated ÷ prefill seconds. decode: (n-1) ÷ decode seconds.
    cached_share: cached ÷ prompt tokens, None without prompt tokens.
    """

    requests: int
    tokens: TokenSums
    seconds: Seconds
    phases: Phases
    prefill: Rate
    decode: Rate
    cached_share: float | None
    ttft: Quantiles


class Sums:
    """Sums over requests so far; what a request does not have is part of no sum."""

    def __init__(self) -> None:
        self.requests = 0
        self._tokens: Counter[str] = Counter()
        self._seconds = sum_of([])
        self._prefill = _RateSums()
        self._decode = _RateSums()
        self._ttft: list[float] = []

    def add(self, record: RequestRecord) -> None:
        """Count one more request."""
        tokens, seconds, rates = record.tokens, record.seconds, record.rates
        self._tokens.update({name: getattr(tokens, name) for name in TokenSums.__dataclass_fields__})
        self._seconds = sum_of([self._seconds, seconds])
        if rates.prompt_eval_tps is not None:
            self._prefill.add(1, tokens.evaluated, seconds.prefill)
        if rates.generation_tps is not None and seconds.decode is not None:
            self._decode.add(1, tokens.decoded, seconds.decode)
        if seconds.ttft is not None:
            self._ttft.append(seconds.ttft)
        self.requests += 1

    def merge(self, other: "Sums") -> None:
        """Count all requests of `other`."""
        self.requests += other.requests
        self._tokens.update(other._tokens)
        self._seconds = sum_of([self._seconds, other._seconds])
        self._prefill.merge(other._prefill)
        self._decode.merge(other._decode)
        self._ttft += other._ttft

    def totals(self) -> Totals:
        """The figures of all requests so far."""
        tokens = TokenSums(**{name: self._tokens[name] for name in TokenSums.__dataclass_fields__})
        shares = shares_of(self._seconds)
        ordered = sorted(self._ttft)
        quantiles = (percentile(ordered, share) if ordered else None for share in (0.5, 0.95))
        return Totals(
            requests=self.requests,
            tokens=tokens,
            seconds=self._seconds,
            phases=Phases(shares, dominant(self._seconds, shares)),
            prefill=self._prefill.rate(),
            decode=self._decode.rate(),
            cached_share=tokens.cached / tokens.prompt if tokens.prompt else None,
            ttft=Quantiles(*quantiles),
        )


class _RateSums:
    """Both sums of one rate."""

    def __init__(self) -> None:
        self._requests, self._tokens, self._seconds = 0, 0, 0.0

    def add(self, requests: int, tokens: int, seconds: float) -> None:
        self._requests += requests
        self._tokens += tokens
        self._seconds += seconds

    def merge(self, other: "_RateSums") -> None:
        self.add(other._requests, other._tokens, other._seconds)

    def rate(self) -> Rate:
        return Rate(self._requests, self._tokens, self._seconds, per_second(self._tokens, self._seconds))
