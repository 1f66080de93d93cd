"""Repeated measurements to a median and its spread."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

STABLE_BELOW = 0.05
"""A standard deviation above this share of the mean makes a result unstable."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean, sample standard deviation (None for a single value), median and extremes."""

    mean: float | None
    stddev: float | None
    median: float | None
    min: float | None
    max: float | None

    @property
    def relative(self) -> float | None:
        """Standard deviation ÷ mean."""
        return None if self.stddev is None or not self.mean else self.stddev / self.mean


def spread_of(values: Sequence[float]) -> Spread:
    """The spread of plain values, such as seconds."""
    if not values:
        return Spread(None, None, None, None, None)
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Spread(statistics.fmean(values), deviation, statistics.median(values), min(values), max(values))


def rates_of(tokens: int, seconds: Sequence[float]) -> Spread:
    """The spread of `tokens` per second over repetitions that took `seconds`.

    mean is all tokens ÷ all seconds, median is tokens ÷ the median time: never a mean of rates. Everything is None
    when nothing was measured.
    """
    if tokens < 1 or not seconds or min(seconds) <= 0:
        return Spread(None, None, None, None, None)
    rates = [tokens / took for took in seconds]
    return Spread(
        mean=tokens * len(seconds) / sum(seconds),
        stddev=statistics.stdev(rates) if len(rates) > 1 else None,
        median=tokens / statistics.median(seconds),
        min=min(rates),
        max=max(rates),
    )
