"""`--plot FILE`: check that it can be drawn, and size the points of its areas."""

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from llmcli import console
from llmcli.cli.size_flags import Question
from llmcli.errors import UsageError
from llmcli.estimate.plan import estimate
from llmcli.estimate.report import Estimate
from llmcli.estimate.subject import Subject
from llmcli.paths import display

_SUFFIXES = (".png", ".svg", ".pdf")
_POINTS = 64
_BEYOND = 4


def check_plot(path: Path) -> None:
    """Raise UsageError for a file that cannot be drawn into, before anything is sized."""
    flag = f"--plot {display(path)}"
    if path.suffix.lower() not in _SUFFIXES:
        raise UsageError(f"{flag} has no known ending", f"Allowed: {', '.join(_SUFFIXES)}.")
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(f"{flag}: {display(path.parent)} is no directory", "Name a file in a directory that is there.")
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError(f"{flag} needs matplotlib, which is not installed", "Install it: pip install 'llmcli[plot]'")


def plot(subjects: Sequence[Subject], estimates: Sequence[Estimate], asked: Question, path: Path) -> None:
    """Draw all models over one range of contexts. Raises LlmcliError when the file cannot be written."""
    from llmcli.estimate.render.plot import draw

    request = replace(asked.request, contexts=_points(estimates), mix=(), bandwidth=None)
    legible = draw([estimate(subject, request, asked.engine) for subject in subjects], path)
    console.say(f"drawn: {display(path)}")
    if not legible:
        console.say("notice: no font here has every character of these names; one with them would be Noto Sans CJK")


def _points(estimates: Sequence[Estimate]) -> tuple[int, ...]:
    """Contexts from 1 to the longest that was asked for, or that fits where that is not far beyond."""
    asked = max(row.context for one in estimates for row in one.rows)
    fitting = [one.max_context for one in estimates if one.max_context and one.max_context <= _BEYOND * asked]
    top = max(asked, *fitting, 2) if fitting else max(asked, 2)
    steps = min(_POINTS, top - 1)
    return tuple(1 + (top - 1) * step // steps for step in range(steps + 1))
