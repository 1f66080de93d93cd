"""Whether a model fits, told before it is fetched or loaded, with ways out when it does not."""

from dataclasses import dataclass
from typing import Any

from llmcli.cli.options import ModelOptions


@dataclass(frozen=True, slots=True)
class Weights:
    """What is known of a model before it is loaded. config: its config.json.

    stored_bytes, stored_dtype: its weights as they lie, or will lie, on disk (dtype: torch's name, None: not known).
    packed_bits: bits per weight of the GGUF file that they were converted from, None for others.
    """

    config: dict[str, Any]
    stored_bytes: int
    stored_dtype: str | None
    packed_bits: float | None = None


def require_memory(name: str, weights: Weights, options: ModelOptions) -> None:
    """Raise OutOfMemory, with three ways out and their sizes, when the model cannot be loaded with `options`."""
