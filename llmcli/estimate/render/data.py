"""The sizes as data on stdout; the warnings, and what such a table has no room for, on stderr."""

import sys
from collections.abc import Sequence
from typing import Literal

from llmcli import console
from llmcli.estimate.render.csv_rows import csv_rows
from llmcli.estimate.render.markdown import markdown
from llmcli.estimate.render.page import warn
from llmcli.estimate.render.proof import proof_text
from llmcli.estimate.report import Estimate


def show_data(estimates: Sequence[Estimate], how: Literal["md", "csv"]) -> None:
    """Print one table of all models. Raises OutputClosed, OutputFailed."""
    text = csv_rows(estimates) if how == "csv" else console.fit_encoding(markdown(estimates), sys.stdout)
    console.write(text)
    _tell_rest(estimates, how)
    for one in estimates:
        warn(one.warnings if len(estimates) == 1 else tuple(f"{one.model.name}: {text}" for text in one.warnings))


def _tell_rest(estimates: Sequence[Estimate], how: str) -> None:
    """Say what a cache that was built has shown, and which answers are left out."""
    for one in estimates:
        for part in one.verified:
            console.say(f"{one.model.name}: {proof_text(part)}")
    asked = {
        "--mix": any(one.mix for one in estimates),
        "--prompt-file": any(one.prompt for one in estimates),
        "--bandwidth": any(one.decode for one in estimates),
    }
    missing = [flag for flag, there in asked.items() if there]
    if missing:
        console.say(f"notice: --format {how} has no room for the answer to {', '.join(missing)}; table and json have")
