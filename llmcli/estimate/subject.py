"""A model to size: its facts, and what finding it brought up."""

from dataclasses import dataclass
from pathlib import Path

from llmcli.estimate.architecture import Architecture


@dataclass(frozen=True, slots=True)
class Subject:
    """A model to size. limit: the context limit in tokens, None where nothing sets one; limited_by: what does.

    stored_bytes: tensor bytes of a checkpoint on disk or on the hub, None where only the config is at hand.
    config: the config.json, and tokenizer: the tokenizer.json, where there are such files.
    assumptions, warnings: what finding it brought up.
    """

    name: str
    architecture: Architecture
    limit: int | None
    limited_by: str = "the model"
    stored_bytes: int | None = None
    config: Path | None = None
    tokenizer: Path | None = None
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
