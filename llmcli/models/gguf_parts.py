"""The files of a model that was split into several GGUF files."""

import re
from pathlib import Path

from llmcli import paths
from llmcli.errors import ModelError
from llmcli.models.gguf import GgufHeader, read_gguf

_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf", re.IGNORECASE)
_MOST = 1000


def read_parts(path: Path) -> tuple[GgufHeader, ...]:
    """The header of `path`; of a split model's first part those of all its parts, which lie beside it.

    Raises ModelError when a part is missing, when `path` is another part than the first, or as `read_gguf` does.
    """
    first = read_gguf(path)
    if first.split_count == 1:
        return (first,)
    name = _PART.fullmatch(path.name)
    if name is None or int(name[3]) != first.split_count or first.split_count > _MOST:
        raise ModelError(
            f"{paths.display(path)} is one of {first.split_count} parts of a split GGUF; its name says not which",
            f"Name the parts as llama-gguf-split does: NAME-00001-of-{min(first.split_count, 99999):05}.gguf.",
        )
    names = [f"{name[1]}-{number:05}-of-{name[3]}.gguf" for number in range(1, first.split_count + 1)]
    if path.name.lower() != names[0].lower():
        raise ModelError(f"{paths.display(path)} is not the first part of a split GGUF", f"Name {names[0]}.")
    missing = [part for part in names[1:] if not path.with_name(part).is_file()]
    if missing:
        raise ModelError(
            f"{paths.display(path)}: {len(missing)} of its {len(names)} parts are not beside it, {missing[0]} first",
            "Get all parts of the model into one directory.",
        )
    return (first, *(read_gguf(path.with_name(part)) for part in names[1:]))
