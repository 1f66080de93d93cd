"""What is wrong with a GGUF file that can be told from its header."""

from llmcli import paths
from llmcli.errors import ModelError
from llmcli.models.gguf import GgufHeader


def refuse_short(header: GgufHeader) -> None:
    """Raise ModelError, with both sizes, for a file that ends before its tensors do."""
    if not header.complete:
        raise ModelError(
            f"{paths.display(header.path)} has {header.file_size} bytes; its header says {header.needed_size}",
            "The download or copy is incomplete: get the file again.",
        )


def refuse_split(header: GgufHeader) -> None:
    """Raise ModelError for one part of a model that was split into several files."""
    if header.split_count > 1:
        raise ModelError(
            f"{paths.display(header.path)} is one of {header.split_count} parts of a split GGUF",
            "Merge the parts into one file first (llama.cpp: llama-gguf-split --merge FIRST OUT).",
        )
