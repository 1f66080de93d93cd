"""A model to size: its facts, and what finding it brought up."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmcli.estimate.architecture import Architecture


@dataclass(frozen=True, slots=True)
class Subject:
    """A model to size. limit: the context limit in tokens, None where nothing sets one; limited_by: what does.

    stored_bytes: tensor bytes of a checkpoint on disk or on the hub, None where only the config is at hand;
    stored_type: the format of most of them in a GGUF file. packed: they lie in one, which llama.cpp runs as it is and
    transformers dequantizes. config: what its config.json says, None for a GGUF file. tokenizer: finds its
    tokenizer.json, and may ask the hub; None: it has none. assumptions, warnings: what finding it brought up.
    """

    name: str
    architecture: Architecture
    limit: int | None
    limited_by: str = "the model"
    stored_bytes: int | None = None
    stored_type: str | None = None
    packed: bool = False
    config: Mapping[str, Any] | None = None
    tokenizer: Callable[[], Path | None] = lambda: None
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
