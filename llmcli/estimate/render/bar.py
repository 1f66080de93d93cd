"""A picture of the bytes: weights, KV cache, activations and overhead on one line, with the VRAM marked."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from llmcli.estimate.render.figures import size_text
from llmcli.estimate.render.lines import Line, Paper, Span, cells, listed
from llmcli.estimate.report import Row

_LONGEST = 60
_SHORTEST = 8
_MOST_VRAM = 2
_PARTS = ("weights", "KV cache", "activations", "overhead")
_STYLES = ("blue", "green", "yellow", "magenta")
_UNICODE = "█▒+-·│»"
_ASCII = "#=+-.|>"
"""Signs of the four parts, of free memory, of the mark, and of what is cut off."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One line of the picture: bytes of the four parts, and of the VRAM, None where nothing is asked about fitting.

    left: bytes that stay free, negative for those that are short.
    """

    label: str
    parts: tuple[int, int, int, int]
    vram: int | None
    left: int | None = None

    @property
    def total(self) -> int:
        """Bytes of all parts."""
        return sum(self.parts)

    @property
    def room(self) -> str:
        """How much is free, or how far past the VRAM it is."""
        if self.left is None:
            return ""
        return f"{size_text(abs(self.left))} {'free' if self.left >= 0 else 'past'}"


def bar(label: str, row: Row) -> Bar:
    """The bytes of a row at its largest moment; what is neither weights, overhead nor cache is activations."""
    rest = max(0, row.total_bytes - row.weights_bytes - row.overhead_bytes)
    cache = min(rest, max(row.kv_bytes, row.kv_peak_bytes, row.kv_allocated_bytes))
    return Bar(label, (row.weights_bytes, cache, rest - cache, row.overhead_bytes), row.vram_bytes, row.headroom_bytes)


def picture(bars: Sequence[Bar], paper: Paper) -> list[Line]:
    """All bars at one scale, those that pass twice the VRAM cut off."""
    scale = max(max(one.total, one.vram or 0) for one in bars)
    scale = min([scale, *(_MOST_VRAM * one.vram for one in bars if one.vram)])
    signs = _UNICODE if paper.unicode else _ASCII
    label = max(cells(one.label) for one in bars)
    figures = _figures(bars, paper.width - label - 2)
    length = max(_SHORTEST, min(_LONGEST, paper.width - label - 2 - len(figures[0])))
    return [
        (Span(" " * (label - cells(one.label)) + one.label + " "), *_spans(one, scale, length, signs), Span(text))
        for one, text in zip(bars, figures, strict=True)
    ]


def legend(bars: Sequence[Bar], paper: Paper) -> list[Line]:
    """What the signs mean."""
    signs = _UNICODE if paper.unicode else _ASCII
    named = [f"{signs[i]} {name}" for i, name in enumerate(_PARTS) if any(one.parts[i] for one in bars)]
    if any(one.vram is not None and one.total < one.vram for one in bars):
        named.append(f"{signs[4]} free")
    sizes = {one.vram for one in bars if one.vram is not None}
    named += [f"{signs[5]} VRAM {size_text(size)}" for size in sorted(sizes)]
    return listed(named, paper)


def _figures(bars: Sequence[Bar], width: int) -> list[str]:
    """The text behind each bar: the total, and what is free or missing where `width` leaves room for it."""
    totals, rooms = _aligned([size_text(one.total) for one in bars]), _aligned([one.room for one in bars])
    if width - len(totals[0]) - len(rooms[0]) < 2 * _SHORTEST:
        return totals
    return [total + room for total, room in zip(totals, rooms, strict=True)]


def _aligned(texts: list[str]) -> list[str]:
    """Two blanks and each text, aligned to the right; nothing where there are no texts."""
    longest = max(map(len, texts))
    return [f"  {text:>{longest}}" if longest else "" for text in texts]


def _spans(one: Bar, scale: int, length: int, signs: str) -> list[Span]:
    """The bar as `length` + 1 characters: the mark stands between two of them."""
    cuts, filled = [0], 0
    for size in one.parts:
        filled += size
        cuts.append(_at(filled, scale, length))
    mark = None if one.vram is None else _at(one.vram, scale, length)
    text = "".join(signs[i] * (end - start) for i, (start, end) in enumerate(pairwise(cuts)))
    if one.total > scale:
        text = text[:-1] + signs[6]
    free = 0 if mark is None else max(0, mark - len(text))
    text = f"{text}{signs[4] * free}".ljust(length)
    if mark is None:
        return _coloured(text, signs)
    past = Span(text[mark:], "red")
    return [*_coloured(text[:mark], signs), Span(signs[5], "bold"), past]


def _coloured(text: str, signs: str) -> list[Span]:
    """Each run of one sign in its colour."""
    styles = dict(zip(signs, (*_STYLES, "dim"), strict=False))
    return [Span("".join(run), styles.get(sign, "")) for sign, run in groupby(text)]


def _at(size: int, scale: int, length: int) -> int:
    return min(length, (2 * size * length + scale) // (2 * scale)) if scale else 0
