"""Numbers to text and text to numbers; no other module formats a unit.

Memory is shown in GiB (2**30) and exact in JSON; `24GB` means 24·10⁹ bytes, `24GiB` 24·2³⁰; `4k` tokens are 4,096.
"""

import math
import re
from collections.abc import Iterable

from llmcli.errors import UsageError

GIB = 2**30
MIB = 2**20

_BYTE_UNITS = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_TOKEN_UNITS = {"": 1, "k": 2**10, "m": 2**20}
_NUMBER = re.compile(r"\s*((?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9][0-9_]*)(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", re.ASCII)


def _split(text: str) -> tuple[float, str] | None:
    match = _NUMBER.fullmatch(text)
    if not match:
        return None
    number = float(re.sub("[_,]", "", match[1]))
    return (number, match[2].lower()) if math.isfinite(number) else None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


def parse_bytes(text: str, what: str) -> int:
    """`24GiB` or `24GB` to bytes. Raises UsageError naming `what` when it is no positive size."""
    parts = _split(text)
    if parts is None or parts[1] not in _BYTE_UNITS or not 1 <= parts[0] * _BYTE_UNITS[parts[1]] < 2**63:
        raise UsageError(
            f"{what} {_shown(text)} is no size", "Write a number and a unit: 24GiB (24·2³⁰) or 24GB (24·10⁹)."
        )
    return int(parts[0] * _BYTE_UNITS[parts[1]])


def parse_tokens(text: str, what: str) -> int:
    """`4096` or `4k` (4,096) to tokens. Raises UsageError naming `what` unless it is a whole number ≥ 1."""
    parts = _split(text)
    count = parts[0] * _TOKEN_UNITS[parts[1]] if parts and parts[1] in _TOKEN_UNITS else 0.0
    if count < 1 or count != int(count):
        raise UsageError(
            f"{what} {_shown(text)} is no number of tokens", "Write a whole number from 1: 4096, or 4k (= 4096)."
        )
    return int(count)


def bytes_text(size: int) -> str:
    """A size of memory: `14.96 GiB`, `0.088 GiB`, and `1.0 MiB` below a hundredth of a GiB."""
    if abs(size) < 0.01 * GIB:
        return f"{size / MIB:.1f} MiB"
    return f"{size / GIB:.2f} GiB" if abs(size) >= GIB else f"{size / GIB:.3f} GiB"


def file_text(size: int) -> str:
    """A size of a download, in decimal units as package indexes show it: `98 MB`, `4.9 GB`."""
    return f"{size / 10**9:.1f} GB" if size >= 10**9 else f"{size / 10**6:.0f} MB"


def seconds_text(seconds: float) -> str:
    """A duration: `50 ms`, `2.0 s`, `131 s`; two significant digits below 100 s."""
    if seconds < 0.0995:
        milliseconds = seconds * 1000
        return f"{milliseconds:.0f} ms" if milliseconds >= 9.95 else f"{milliseconds:.1f} ms"
    if seconds < 0.995:
        return f"{seconds:.2f} s"
    return f"{seconds:.1f} s" if seconds < 99.95 else f"{seconds:.0f} s"


def seconds_figure(seconds: float) -> str:
    """A duration in seconds for a column headed `s`: `0.050`, `0.51`, `2.00`, `13.1`, `131`."""
    if seconds >= 99.95:
        return f"{seconds:.0f}"
    if seconds >= 9.995:
        return f"{seconds:.1f}"
    return f"{seconds:.3f}" if 0.0005 <= seconds < 0.0995 else f"{seconds:.2f}"


def rate_text(per_second: float) -> str:
    """A token rate: `1624 tok/s`, `82 tok/s`, `8.2 tok/s`."""
    return f"{rate_figure(per_second)} tok/s"


def rate_figure(per_second: float) -> str:
    """A token rate for a column headed `tok/s`: `1624`, `82`, `8.2`."""
    return f"{per_second:.0f}" if per_second >= 9.95 else f"{per_second:.1f}"


def percent_text(share: float) -> str:
    """A share of one as whole percent: `94 %`."""
    return f"{math.floor(share * 100 + 0.5)} %"


def count_text(number: int) -> str:
    """A count of parameters: `134.5 M`, `8.03 B`."""
    for size, name in ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            scaled = number / size
            return f"{scaled:.2f} {name}" if scaled < 10 else f"{scaled:.1f} {name}"
    return str(number)


def some(names: Iterable[str]) -> str:
    """Up to three names, and how many more there are."""
    names = sorted(names)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
