"""The header of a GGUF file: metadata and tensor list, without the weights and without the token list.

Layout (ggml's docs/gguf.md): magic, version, tensor count, key count; then keys with typed values, then one record per
tensor (name, shape, type, offset), then, aligned, the tensor data. All numbers are little-endian.
Nothing is allocated by a count that the file announces: every count is first held against the bytes that are left.
"""

import math
import mmap
import stat
import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from llmcli.errors import ModelError, ModelNotFound
from llmcli.models.ggml import TYPES

KEPT_ARRAY = 4096
"""Arrays of numbers up to this length are kept; of longer ones and of string arrays only the length."""

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
_MAX_ALIGNMENT = 2**20
_MAX_DIMENSIONS = 4
_MAX_NESTING = 4
_SMALLEST_KEY = 8 + 4 + 1
_SMALLEST_TENSOR = 8 + 4 + 8 + 4 + 8
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_HINT_DAMAGED = "The file is damaged or not fully downloaded: get it again."


@dataclass(frozen=True, slots=True)
class ArrayLength:
    """An array whose elements were skipped: only how many there are."""

    count: int


Value = int | float | bool | str | tuple[int | float | bool, ...] | ArrayLength


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One tensor. `shape` in file order (fastest dimension first), `offset` from the start of the data, both counted.

    offset and size are in bytes; type is ggml's name of the format (`Q4_1`).
    """

    name: str
    shape: tuple[int, ...]
    type: str
    offset: int
    size: int

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a GGUF file says about itself. Sizes in bytes."""

    path: Path
    version: int
    metadata: dict[str, Value]
    tensors: tuple[GgufTensor, ...]
    data_start: int
    file_size: int

    @property
    def architecture(self) -> str:
        """`general.architecture`. Raises ModelError when the file has none."""
        name = self.metadata.get("general.architecture")
        if not isinstance(name, str) or not name:
            raise ModelError(f"{self.path}: no general.architecture in the GGUF header", _HINT_DAMAGED)
        return name

    def field(self, key: str) -> Value | None:
        """The value of `{architecture}.{key}`, or None."""
        return self.metadata.get(f"{self.architecture}.{key}")

    @property
    def params(self) -> int:
        """Elements of all tensors."""
        return sum(tensor.elements for tensor in self.tensors)

    @property
    def tensor_bytes(self) -> int:
        """Bytes of all tensors, as they are stored."""
        return sum(tensor.size for tensor in self.tensors)

    @property
    def main_type(self) -> str | None:
        """The format that most of the bytes are in, or None without tensors."""
        sizes: Counter[str] = Counter()
        for tensor in self.tensors:
            sizes[tensor.type] += tensor.size
        return max(sizes, key=lambda name: sizes[name], default=None)

    @property
    def needed_size(self) -> int:
        """The size that the file must have for its last tensor to be whole."""
        return self.data_start + max((tensor.offset + tensor.size for tensor in self.tensors), default=0)

    @property
    def complete(self) -> bool:
        """Whether the file holds all the tensor data that its header announces."""
        return self.file_size >= self.needed_size

    @property
    def split_count(self) -> int:
        """The number of files that the model was split into; 1 for a whole one."""
        count = self.metadata.get("split.count", 1)
        return count if isinstance(count, int) and count > 1 else 1


def read_gguf(path: Path) -> GgufHeader:
    """Read the header of `path`; never the weights.

    Raises ModelNotFound when there is no such file, ModelError when it is no GGUF file, its header is cut short or
    damaged, or its version is not known. Tensor data that is cut short is no error here: see `complete`.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ModelError(f"{path} is not a regular file", "Name a .gguf file.")
        if status.st_size < len(_MAGIC) + 4:
            raise ModelError(f"{path}: {status.st_size} bytes are too few for a GGUF file", _HINT_DAMAGED)
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(path, data).header()
    except FileNotFoundError:
        raise ModelNotFound(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"{path} cannot be read: {reason}") from None


class _Reader:
    """A position in the mapped file."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.data = data
        self.size = len(data)
        self.at = 0

    def header(self) -> GgufHeader:
        version = self._version()
        tensor_count, key_count = self._number("Q"), self._number("Q")
        self._room_for(key_count, _SMALLEST_KEY, "metadata keys")
        metadata = self._metadata(key_count)
        self._room_for(tensor_count, _SMALLEST_TENSOR, "tensors")
        tensors = tuple(self._tensor() for _ in range(tensor_count))
        alignment = self._alignment(metadata)
        start = -(-self.at // alignment) * alignment
        if any(self.data[self.at : start]):
            raise self._damaged(f"it goes on behind the {tensor_count} tensors that it announces")
        return GgufHeader(self.path, version, metadata, tensors, start, self.size)

    def _version(self) -> int:
        if self.data[:4] != _MAGIC:
            raise ModelError(f"{self.path} is not a GGUF file", "A GGUF file begins with the letters GGUF.")
        self.at = 4
        version = self._number("I")
        if version & 0xFFFF == 0:
            raise ModelError(f"{self.path} is a big-endian GGUF file", "Convert the model for a little-endian machine.")
        if version not in _VERSIONS:
            known = " and ".join(map(str, _VERSIONS))
            raise ModelError(f"{self.path}: GGUF version {version} is not known, only {known}", "Convert it anew.")
        return version

    def _metadata(self, count: int) -> dict[str, Value]:
        metadata: dict[str, Value] = {}
        for _ in range(count):
            key = self._string()
            if key in metadata:
                raise self._damaged(f"the key {key!r} stands there twice")
            metadata[key] = self._value(self._number("I"))
        return metadata

    def _value(self, kind: int) -> Value:
        if kind in _SCALARS:
            return self._number(_SCALARS[kind])
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array(1)
        raise self._damaged(f"unknown value type {kind}")

    def _array(self, depth: int) -> tuple[int | float | bool, ...] | ArrayLength:
        kind, count = self._number("I"), self._number("Q")
        if kind in _SCALARS:
            return self._numbers(_SCALARS[kind], count)
        if kind == _STRING:
            self._room_for(count, 8, "strings")
            self._skip_strings(count)
        elif kind == _ARRAY and depth < _MAX_NESTING:
            self._room_for(count, 12, "arrays")
            for _ in range(count):
                self._array(depth + 1)
        else:
            raise self._damaged(f"unknown array type {kind}")
        return ArrayLength(count)

    def _numbers(self, code: str, count: int) -> tuple[int | float | bool, ...] | ArrayLength:
        width = struct.calcsize("<" + code)
        self._room_for(count, width, "numbers")
        start, self.at = self.at, self.at + count * width
        if count > KEPT_ARRAY:
            return ArrayLength(count)
        return struct.unpack_from(f"<{count}{code}", self.data, start)

    def _skip_strings(self, count: int) -> None:
        length_at = struct.Struct("<Q").unpack_from
        data, at = self.data, self.at
        try:
            for _ in range(count):
                at += 8 + length_at(data, at)[0]
        except (struct.error, OverflowError):
            raise self._cut() from None
        if at > self.size:
            raise self._cut()
        self.at = at

    def _tensor(self) -> GgufTensor:
        name = self._string()
        dimensions = self._number("I")
        if not 1 <= dimensions <= _MAX_DIMENSIONS:
            raise self._damaged(f"tensor {name!r} has {dimensions} dimensions")
        shape = tuple(self._number("Q") for _ in range(dimensions))
        kind, offset = self._number("I"), self._number("Q")
        if kind not in TYPES:
            hint = "Get the model in another quantization, such as Q4_K_M or Q8_0."
            raise ModelError(f"{self.path}: tensor {name!r} has the unknown type {kind}", hint)
        type_name, block, block_size = TYPES[kind]
        if 0 in shape or shape[0] % block:
            raise self._damaged(f"tensor {name!r} has the shape {list(shape)} in blocks of {block}")
        return GgufTensor(name, shape, type_name, offset, math.prod(shape) // block * block_size)

    def _alignment(self, metadata: dict[str, Value]) -> int:
        value = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
        if not isinstance(value, int) or not 1 <= value <= _MAX_ALIGNMENT or value & (value - 1):
            raise self._damaged(f"general.alignment is {value!r}")
        return value

    def _string(self) -> str:
        length = self._number("Q")
        if length > self.size - self.at:
            raise self._cut()
        start, self.at = self.at, self.at + length
        try:
            return self.data[start : self.at].decode()
        except UnicodeDecodeError:
            raise self._damaged("a text that is not UTF-8") from None

    def _number(self, code: str) -> int:
        """The next number; the format's codes say whether it is an int, a float or a bool."""
        width = struct.calcsize("<" + code)
        if self.at + width > self.size:
            raise self._cut()
        value: int = struct.unpack_from("<" + code, self.data, self.at)[0]
        self.at += width
        return value

    def _room_for(self, count: int, smallest: int, what: str) -> None:
        if count * smallest > self.size - self.at:
            raise ModelError(
                f"{self.path}: {count} {what} announced at byte {self.at}, and the file has {self.size} bytes",
                _HINT_DAMAGED,
            )

    def _cut(self) -> ModelError:
        return ModelError(f"{self.path}: the header goes on past the end, at {self.size} bytes", _HINT_DAMAGED)

    def _damaged(self, what: str) -> ModelError:
        return ModelError(f"{self.path}: damaged GGUF header: {what} (before byte {self.at})", _HINT_DAMAGED)
