"""Number formats: their names and sizes."""

from dataclasses import dataclass

from llmcli.errors import UsageError

BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_NAMES = {"fp32": "float32", "f32": "float32", "fp16": "float16", "f16": "float16", "bf16": "bfloat16"}


@dataclass(frozen=True, slots=True)
class Format:
    """How numbers lie in memory: `bytes` for every block of `elements`. name: as the engine calls it.

    inexact: why a cache in this format is not sized to the byte.
    """

    name: str
    bytes: int
    elements: int = 1
    inexact: tuple[str, ...] = ()

    def size(self, count: int) -> int:
        """Bytes of `count` numbers, the last block filled up."""
        return -(-count // self.elements) * self.bytes


FLOATS = {name: Format(name, size) for name, size in BYTES.items()}


def canonical(text: str) -> str | None:
    """The format's name in torch (`bf16` and `torch.bfloat16` are `bfloat16`), or None when it has no size here."""
    name = text.strip().lower().removeprefix("torch.")
    name = _NAMES.get(name, name)
    return name if name in BYTES else None


def parse_dtype(text: str, flag: str) -> str | None:
    """The value of a flag: torch's name, or None for `auto`. Raises UsageError naming the flag."""
    if text.strip().lower() == "auto":
        return None
    name = canonical(text)
    if name is None:
        raise UsageError(
            f"{flag} {text!r} is not supported yet by the estimate for the transformers engine",
            "Write auto, float32 (fp32), bfloat16 (bf16) or float16 (fp16).",
        )
    return name
