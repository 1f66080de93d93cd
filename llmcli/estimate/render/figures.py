"""Sizes and factors as text, small ones included."""

from llmcli.estimate.fitting import UNLIMITED
from llmcli.units import MIB, bytes_text

_SMALL = MIB // 10


def size_text(size: int) -> str:
    """A size as everywhere (`14.96 GiB`, `1.0 MiB`); exact where that would show next to nothing: `38400 B`, `0`."""
    if abs(size) >= _SMALL:
        return bytes_text(size)
    return f"{size} B" if size else "0"


def times(factor: float) -> str:
    """A factor to two decimals at most: `4 ×`, `1.33 ×`, `0.063 ×`."""
    text = f"{factor:.2f}" if factor >= 0.1 else f"{factor:.2g}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} ×"


def context_text(tokens: int, unit: str = "") -> str:
    """A longest context: `40960` and the unit, or `any` where neither the model nor memory sets a limit."""
    return "any" if tokens >= UNLIMITED else f"{tokens}{unit}"
