"""Whether a model's files are whole: sizes, checksums and headers; weights are only read for a checksum."""

from collections.abc import Callable
from pathlib import Path

from llmcli import paths
from llmcli.errors import ModelError
from llmcli.models import manifest, store
from llmcli.models.gguf import read_gguf
from llmcli.models.gguf_checks import refuse_short
from llmcli.models.integrity import check_directory
from llmcli.models.locate import Located
from llmcli.models.safetensors import Checkpoint
from llmcli.models.wheel import file_sha256
from llmcli.units import bytes_text, count_text

Report = Callable[[int, int], None]


def verify(located: Located, report: Report = lambda _done, _total: None) -> str:
    """Check every file of a model that is on this disk; returns what was found to be whole, in words.

    report: takes bytes hashed and bytes in all. Raises ModelError for the first damage, ModelNotFound for a local
    path that is not there.
    """
    if located.kind == "hub" and located.original is None:
        return "not on this disk"
    if located.kind in {"directory", "hub"}:
        checkpoint = check_directory(located.require()).checkpoint
        return f"{_files(checkpoint)}, headers complete"
    found = []
    if located.kind == "gguf" or located.original:
        found.append(_verify_original(located, report))
    slot = store.slot(located)
    if slot.converted.exists():
        found.append(_verify_converted(slot.converted))
    return "; ".join(found) or "not on this disk"


def _verify_original(located: Located, report: Report) -> str:
    path = located.require()
    header = read_gguf(path)
    refuse_short(header)
    expected = located.entry.sha256 if located.entry else None
    if not expected:
        return f"GGUF of {bytes_text(header.file_size)}, header complete"
    digest = file_sha256(path, report)
    if digest != expected:
        raise ModelError(f"{paths.display(path)} has sha256 {digest}; the registry says {expected}", _repair(path))
    return f"GGUF of {bytes_text(header.file_size)}, sha256 right"


def _verify_converted(directory: Path) -> str:
    if problems := manifest.damage(directory):
        raise ModelError(f"{paths.display(directory)}: {'; '.join(problems[:3])}", _repair(directory))
    return f"converted: {_files(check_directory(directory).checkpoint)}"


def _files(checkpoint: Checkpoint) -> str:
    count = len(checkpoint.files)
    return f"{count_text(checkpoint.params)} parameters in {count} file{'s' if count > 1 else ''}"


def _repair(path: Path) -> str:
    return f"Remove {paths.display(path)}; `llmcli models pull` makes it again."
