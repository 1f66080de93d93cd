"""Figures measured round by round: their medians and spreads, ratios within a round, and targets."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Values = Mapping[str, Mapping[str, Sequence[float | None]]]
"""engine -> figure -> one value per round, None where a round has none."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some values, the least and the most of them, and how many they are."""

    median: float
    min: float
    max: float
    count: int

    def text(self, digits: int = 0) -> str:
        """`475 (470-480)`."""
        return f"{self.median:.{digits}f} ({self.min:.{digits}f}-{self.max:.{digits}f})"


def spread_of(values: Iterable[float | None]) -> Spread | None:
    """The spread of the values that are there; None where there is none."""
    there = [value for value in values if value is not None]
    return Spread(statistics.median(there), min(there), max(there), len(there)) if there else None


def ratios(values: Values, over: tuple[str, str], under: tuple[str, str]) -> list[float]:
    """(engine, figure) ÷ (engine, figure) in every round that has both."""
    pairs = zip(_series(values, over), _series(values, under), strict=False)
    return [above / below for above, below in pairs if above is not None and below]


def _series(values: Values, what: tuple[str, str]) -> Sequence[float | None]:
    return values.get(what[0], {}).get(what[1], ())


@dataclass(frozen=True, slots=True)
class Target:
    """`over` ÷ `under`, each (engine, figure), has to reach `factor`; `at_most`: must not exceed it.

    factor None: the ratio is shown beside `note` and not judged.
    """

    text: str
    over: tuple[str, str]
    under: tuple[str, str]
    factor: float | None
    at_most: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """A target, the ratios of the rounds, and whether their median meets it; None where nothing can be said."""

    target: Target
    values: list[float] = field(default_factory=list)
    spread: Spread | None = None
    met: bool | None = None

    def line(self) -> str:
        """The target, what was measured, and the verdict."""
        target, spread = self.target, self.spread
        if spread is None:
            return f"{target.text}: not measured"
        verdict = {True: "met", False: "not met", None: target.note}[self.met]
        return f"{target.text}: {spread.text(3 if target.at_most else 2)} over {spread.count} rounds: {verdict}"


def judge(target: Target, values: Values) -> Judged:
    """Hold the figures against a target."""
    found = ratios(values, target.over, target.under)
    spread = spread_of(found)
    if spread is None or target.factor is None:
        return Judged(target, found, spread)
    met = spread.median <= target.factor if target.at_most else spread.median >= target.factor
    return Judged(target, found, spread, met)


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a table: the first column to the left, the others to the right."""
    first, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join("  ".join((row[0].ljust(first), *map(str.rjust, row[1:], widths))).rstrip() for row in rows)
