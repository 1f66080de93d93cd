"""Headers of safetensors files: every tensor's name, type, shape and place, held against the file's real size.

Layout (huggingface/safetensors, README): 8 bytes little-endian header length, a JSON header, then the tensor data,
contiguous and complete. A file that is shorter than its header says would be read as zeros through a memory map.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path

from llmcli import paths
from llmcli.errors import ModelError
from llmcli.models import magic

_LENGTH = 8
_INCOMPLETE = "Incomplete download or copy? Fetch the file again."
_BITS = {
    **dict.fromkeys(("F4", "I4", "U4"), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "I8", "U8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
}


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """One tensor of a checkpoint. size: bytes; file: the file that holds it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int
    file: Path

    @property
    def elements(self) -> int:
        """The number of values."""
        return math.prod(self.shape)


def read_header(path: Path) -> tuple[TensorFacts, ...]:
    """Every tensor of a safetensors file, in the order of its data.

    Raises ModelError naming the file when it is no safetensors file, damaged, or of another size than it says.
    """
    real = magic.file_size(path)
    length = _header_length(path, real)
    try:
        with path.open("rb") as file:
            file.seek(_LENGTH)
            header = json.loads(file.read(length))
    except OSError as error:
        raise magic.unreadable(path, error) from None
    except (ValueError, RecursionError):
        raise _damaged(path, "its header is no JSON") from None
    if not isinstance(header, dict):
        raise _damaged(path, "its header is no JSON object")
    header.pop("__metadata__", None)
    placed = sorted((_offsets(path, name, facts), name, facts) for name, facts in header.items())
    end = 0
    for (start, stop), name, _ in placed:
        if start != end:
            raise _damaged(path, f"the data of tensor {name} does not follow the tensor before it")
        end = stop
    _check_size(path, _LENGTH + length + end, real)
    return tuple(_tensor(path, name, facts, stop - start) for (start, stop), name, facts in placed)


def _header_length(path: Path, real: int) -> int:
    kind = magic.file_kind(path)
    if kind != magic.SAFETENSORS:
        raise ModelError(f"{paths.display(path)} is no safetensors file but {kind}", _INCOMPLETE)
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH), "little")
    if real < _LENGTH + length:
        _check_size(path, _LENGTH + length, real)
    return length


def _check_size(path: Path, expected: int, real: int) -> None:
    if real < expected:
        problem = f"{paths.display(path)} has {real:,} bytes; its header says {expected:,}"
        raise ModelError(f"{problem}, so {expected - real:,} are missing", _INCOMPLETE)
    if real > expected:
        problem = f"{paths.display(path)} has {real:,} bytes; its header says {expected:,}"
        raise ModelError(f"{problem}, so {real - expected:,} are too many", "A damaged copy? Fetch the file again.")


def _offsets(path: Path, name: str, facts: object) -> tuple[int, int]:
    offsets = facts.get("data_offsets") if isinstance(facts, dict) else None
    if not (isinstance(offsets, list) and len(offsets) == 2 and all(_count(x) for x in offsets)):
        raise _damaged(path, f"tensor {name} has no data_offsets")
    start, stop = offsets
    if start > stop:
        raise _damaged(path, f"the data of tensor {name} ends before it starts")
    return start, stop


def _tensor(path: Path, name: str, facts: dict[str, object], size: int) -> TensorFacts:
    dtype, shape = facts.get("dtype"), facts.get("shape")
    if not (isinstance(dtype, str) and dtype in _BITS):
        raise _damaged(path, f"tensor {name} is of the unknown type {dtype!r}")
    if not (isinstance(shape, list) and all(_count(x) for x in shape)):
        raise _damaged(path, f"tensor {name} has no shape")
    if math.prod(shape) * _BITS[dtype] != size * 8:
        raise _damaged(path, f"tensor {name} holds {size:,} bytes, not what {dtype} {shape} takes")
    return TensorFacts(name, dtype, tuple(shape), size, path)


def _count(value: object) -> bool:
    return type(value) is int and value >= 0


def _damaged(path: Path, problem: str) -> ModelError:
    return ModelError(f"{paths.display(path)} is damaged: {problem}", "Fetch the file again.")
