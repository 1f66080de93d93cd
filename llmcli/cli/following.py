"""A further process of a tensor-parallel run: it holds its part of the model and says nothing."""

from dataclasses import replace
from pathlib import Path

from llmcli.cli.fetching import find
from llmcli.cli.opening import load_request
from llmcli.cli.options import ModelOptions
from llmcli.engine.start import start_following


def follow(model: str | None, registry: Path | None, options: ModelOptions) -> None:
    """Load a part of the model and run what the first process announces, until that one ends."""
    start_following(load_request(find(model, registry), replace(options, weights_only=True)))
