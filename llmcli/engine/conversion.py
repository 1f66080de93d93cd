"""What a GGUF conversion is and what it takes; told without loading torch."""

from dataclasses import dataclass
from pathlib import Path

_PEAK = 2.5
"""transformers' GGUF loader takes up to this many times the size of the converted weights."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """A GGUF file, what its header says, and the empty directory that takes the converted model."""

    source: Path
    target: Path
    architecture: str
    params: int

    @property
    def weight_bytes(self) -> int:
        """Bytes of the converted weights: bfloat16."""
        return 2 * self.params

    @property
    def memory_bytes(self) -> int:
        """Memory that the conversion takes at its peak."""
        return int(_PEAK * self.weight_bytes)
