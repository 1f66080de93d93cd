"""How the weights of a GGUF file were packed before they were converted."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llmcli.models.ggml import TYPES
from llmcli.models.gguf import GgufHeader, read_gguf
from llmcli.models.store import slot

if TYPE_CHECKING:
    from llmcli.models.locate import Located

_BITS = {name: 8 * size / block for name, block, size in TYPES.values()}


@dataclass(frozen=True, slots=True)
class Packed:
    """The format that most of a file's bytes are in: bits per weight, and ggml's name. None for what is no GGUF.

    Not the average of the file: in a small model the embedding, which is packed less, would hide what the layers are.
    """

    bits: float | None = None
    type: str | None = None


def packed_as(located: "Located") -> Packed:
    """How the model's file is packed; nothing where it is no GGUF, or is gone after it was converted."""
    if located.kind not in {"gguf", "wheel"}:
        return Packed()
    original = slot(located).original
    if not original.is_file():
        return Packed()
    return packed_in(read_gguf(original))


def packed_in(header: GgufHeader) -> Packed:
    """How the file of this header is packed."""
    main = header.main_type
    return Packed(_BITS.get(main), main) if main else Packed()
