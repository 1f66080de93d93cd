"""The largest number that fits, found without dividing: caches are no straight lines."""

from collections.abc import Callable

UNLIMITED = 2**40
"""Tokens that no context passes."""


def largest(fits: Callable[[int], bool], limit: int) -> int:
    """The largest number from 1 to `limit` that fits, where all smaller ones fit as well; 0 when none does."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
