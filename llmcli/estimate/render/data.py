"""The sizes as data on stdout, and the warnings on stderr."""

import sys
from collections.abc import Sequence
from typing import Literal

from llmcli import console
from llmcli.estimate.render.csv_rows import csv_rows
from llmcli.estimate.render.markdown import markdown
from llmcli.estimate.render.page import warn
from llmcli.estimate.report import Estimate


def show_data(estimates: Sequence[Estimate], how: Literal["md", "csv"]) -> None:
    """Print one table of all models. Raises OutputClosed, OutputFailed."""
    text = csv_rows(estimates) if how == "csv" else console.fit_encoding(markdown(estimates), sys.stdout)
    console.write(text)
    for one in estimates:
        warn(one.warnings if len(estimates) == 1 else tuple(f"{one.model.name}: {text}" for text in one.warnings))
