"""Many requests in a few figures: `llmcli.log-stats/1`. Pure.

Every rate is Σ tokens ÷ Σ seconds: a mean of rates would give a request of 20 tokens the weight of one of 2,000. Rates
of prefill depend on how many tokens are evaluated at once (below some hundred the weights are read for few tokens, in
the thousands attention grows), so they stand in buckets of evaluated tokens. The lowest ends at 63, below which the
phase line shows no rate.

A request that was interrupted or failed counts with what it did: its seconds were waited for, so they are in the
shares. A rate that it did not reach is null, and its tokens and seconds are in neither sum of that rate.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from llmcli.metrics.log_sums import Sums, Totals
from llmcli.metrics.record import RequestRecord

SCHEMA = "llmcli.log-stats/1"
BUCKETS = (0, 1, 64, 512, 4096)
"""The least evaluated tokens of each bucket; 0 holds what ended before its first prompt token was evaluated."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """The requests with `least` to `most` evaluated tokens; most: None is no limit."""

    least: int
    most: int | None
    totals: Totals


@dataclass(frozen=True, slots=True)
class ModelStats:
    """The requests of one model in one form on one device."""

    name: str
    quant: str
    dtype: str
    device: str
    totals: Totals
    buckets: tuple[Bucket, ...]
    finish_reasons: dict[str, int]


@dataclass(frozen=True, slots=True)
class LogStats:
    """Everything that `llmcli log stats` says. first, last: UTC stamps of the earliest and latest start, or None."""

    schema: str
    requests: int
    first: str | None
    last: str | None
    commands: dict[str, int]
    finish_reasons: dict[str, int]
    models: tuple[ModelStats, ...]


def stats_of(records: Iterable[RequestRecord]) -> LogStats:
    """The figures of all records, read once; the model that was waited for longest comes first."""
    models: dict[tuple[str, str, str, str], _Model] = {}
    first = last = None
    commands: Counter[str] = Counter()
    for record in records:
        model = record.model
        models.setdefault((model.name, model.quant, model.dtype, model.device), _Model()).add(record)
        commands[record.command] += 1
        first = min(first or record.started_at, record.started_at)
        last = max(last or record.started_at, record.started_at)
    ended = sum((model.ends for model in models.values()), Counter[str]())
    results = [model.result(*key) for key, model in models.items()]
    results.sort(key=lambda result: -result.totals.seconds.total)
    return LogStats(SCHEMA, commands.total(), first, last, _counts(commands), _counts(ended), tuple(results))


class _Model:
    """The requests of one model so far, by bucket."""

    def __init__(self) -> None:
        self.ends: Counter[str] = Counter()
        self._buckets: dict[int, Sums] = {}

    def add(self, record: RequestRecord) -> None:
        self.ends[record.finish_reason] += 1
        least = max(bound for bound in BUCKETS if bound <= max(0, record.tokens.evaluated))
        self._buckets.setdefault(least, Sums()).add(record)

    def result(self, name: str, quant: str, dtype: str, device: str) -> ModelStats:
        together = Sums()
        for sums in self._buckets.values():
            together.merge(sums)
        buckets = tuple(Bucket(least, _most(least), self._buckets[least].totals()) for least in sorted(self._buckets))
        return ModelStats(name, quant, dtype, device, together.totals(), buckets, _counts(self.ends))


def _most(least: int) -> int | None:
    return next((bound - 1 for bound in BUCKETS if bound > least), None)


def _counts(counter: Counter[str]) -> dict[str, int]:
    """The most frequent first."""
    return dict(counter.most_common())
