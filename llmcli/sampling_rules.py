"""What each sampling value may be: one table for flags, models.toml and tests."""

from collections.abc import Callable

MAX_NEW_TOKENS = 2048
"""The default limit: it ends the answer of a model that never ends it by itself."""

RULES: dict[str, tuple[Callable[[float], bool], str]] = {
    "temperature": (
        lambda x: x == 0 or 0.001 <= x <= 100,
        "0 (takes the most likely token) or a number from 0.001 to 100",
    ),
    "top_p": (lambda x: 0 < x <= 1, "a number above 0 and up to 1 (1 is off)"),
    "top_k": (lambda x: x >= 0, "a whole number from 0 (0 is off)"),
    "min_p": (lambda x: 0 <= x <= 1, "a number from 0 to 1 (0 is off)"),
    "repetition_penalty": (lambda x: 0.01 <= x <= 100, "a number from 0.01 to 100 (1 is off)"),
    "seed": (lambda x: 0 <= x < 2**63, "a whole number from 0 to 2**63 - 1"),
    "max_new_tokens": (lambda x: x >= 1, "a whole number from 1"),
}
"""Field of `SamplingOptions` -> (whether a value is allowed, the allowed values in words)."""


def broken_rule(field: str, value: float) -> str | None:
    """What is allowed for `field` when `value` is not; None when it is. NaN and infinity never are."""
    allowed, words = RULES[field]
    finite = value - value == 0  # also for whole numbers that no float can hold
    return None if finite and allowed(value) else words
