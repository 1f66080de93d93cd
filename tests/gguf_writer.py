"""Write small GGUF files for tests, byte by byte."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10
_CODES = {U32: "I", F32: "f", BOOL: "?", U64: "Q"}


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def typed(value) -> bytes:
    """A value behind its type number; a list is an array of texts, of booleans or of u32."""
    if isinstance(value, bool):
        return struct.pack("<I?", BOOL, value)
    if isinstance(value, int):
        if value < 0:
            return struct.pack("<Ii", I32, value)
        return struct.pack("<II", U32, value) if value < 2**32 else struct.pack("<IQ", U64, value)
    if isinstance(value, float):
        return struct.pack("<If", F32, value)
    if isinstance(value, str | bytes):
        return struct.pack("<I", STRING) + text(value)
    if value and isinstance(value[0], str):
        return struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(text, value))
    if value and isinstance(value[0], bool):
        return struct.pack(f"<IIQ{len(value)}?", ARRAY, BOOL, len(value), *value)
    return struct.pack(f"<IIQ{len(value)}I", ARRAY, U32, len(value), *value)


@dataclass
class Gguf:
    """A GGUF file to be; the announced counts can be falsified."""

    metadata: Sequence[tuple[str | bytes, object]] = ()
    tensors: Sequence[tuple[str, tuple[int, ...], int, int]] = ()  # name, shape, type number, bytes
    version: int = 3
    magic: bytes = b"GGUF"
    alignment: int = 32
    announced: dict[str, int] = field(default_factory=dict)

    def header(self) -> bytes:
        counts = (self.announced.get("tensors", len(self.tensors)), self.announced.get("keys", len(self.metadata)))
        data = self.magic + struct.pack("<IQQ", self.version, *counts)
        for key, value in self.metadata:
            data += text(key) + (value.raw if isinstance(value, Raw) else typed(value))
        offset = 0
        for name, shape, kind, size in self.tensors:
            data += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
            offset += -(-size // self.alignment) * self.alignment
        return data

    def bytes(self) -> bytes:
        data = self.header()
        data += bytes(-len(data) % self.alignment)
        for _, _, _, size in self.tensors:
            data += bytes(-(-size // self.alignment) * self.alignment)
        return data

    def write(self, path: Path) -> Path:
        path.write_bytes(self.bytes())
        return path


@dataclass
class Raw:
    """A value already in bytes, its type number included."""

    raw: bytes


def llama(layers: int = 2, *, tied: bool = True, **changes: object) -> Gguf:
    """A llama of hidden size 64, 4 heads, 2 KV heads, MLP 96 and 128 tokens, all in F16; `changes` replace fields."""
    fields = {
        "block_count": layers,
        "context_length": 512,
        "embedding_length": 64,
        "feed_forward_length": 96,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
    }
    fields.update({key.replace("__", "."): value for key, value in changes.items()})
    metadata = [("general.architecture", "llama")]
    metadata += [(f"llama.{key}", value) for key, value in fields.items() if value is not None]
    metadata.append(("tokenizer.ggml.tokens", [f"t{number}" for number in range(128)]))
    shapes = {"token_embd.weight": (64, 128), "output_norm.weight": (64,), "rope_freqs.weight": (8,)}
    if not tied:
        shapes["output.weight"] = (64, 128)
    for layer in range(layers):
        block = {"attn_norm": (64,), "ffn_norm": (64,), "attn_q": (64, 64), "attn_k": (64, 32), "attn_v": (64, 32)}
        block |= {"attn_output": (64, 64), "ffn_gate": (64, 96), "ffn_up": (64, 96), "ffn_down": (96, 64)}
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in block.items()}
    tensors = [(name, shape, 1, 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)) for name, shape in shapes.items()]
    return Gguf(metadata, tensors)


def bare(architecture: str, tokens: int = 128, **fields: object) -> Gguf:
    """A file of this architecture with these keys (`attention__head_count` is attention.head_count) and no tensors."""
    metadata: list[tuple[str | bytes, object]] = [("general.architecture", architecture)]
    metadata += [(f"{architecture}.{key.replace('__', '.')}", value) for key, value in fields.items()]
    names = b"".join(text(f"t{number}") for number in range(tokens))
    metadata.append(("tokenizer.ggml.tokens", Raw(struct.pack("<IIQ", ARRAY, STRING, tokens) + names)))
    return Gguf(metadata)
