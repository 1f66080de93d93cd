"""Flags that take several values with commas between them."""

from llmcli.errors import UsageError

MOST = 100
"""The most values of one flag."""

_LONGEST = 40


def parts(text: str, flag: str, noun: str = "numbers") -> list[str]:
    """What stands between the commas. Raises UsageError when that is more than anyone means."""
    found = text.split(",")
    if len(found) > MOST:
        raise UsageError(f"{flag} has {len(found)} {noun}", f"Ask for at most {MOST} at once.")
    return found


def shown(text: str) -> str:
    """A value as an error names it: whole, unless it is very long."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
