"""How far back: an age or a date to a moment."""

import re
from datetime import datetime, timedelta

from llmcli.errors import UsageError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGE = re.compile(r"([0-9]+)\s*([smhdw])", re.ASCII)


def parse_since(text: str, now: datetime) -> datetime:
    """`30m`, `2h`, `7d`, or an ISO date or time (local unless it says otherwise), as a moment with a time zone.

    Raises UsageError.
    """
    try:
        if age := _AGE.fullmatch(text.strip()):
            return now - timedelta(**{_UNITS[age[2]]: int(age[1])})
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"--since {text!r} is no time", "Write an age, 30m, 2h or 7d, or a date: 2025-01-31, 2025-01-31T14:30."
        ) from None
