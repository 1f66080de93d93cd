"""What the hub tells of a model without its weights: the config, and the headers of its safetensors files."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmcli.errors import ModelError, ModelNotFound
from llmcli.models import hub, hub_errors, hub_files
from llmcli.models.safetensors import Checkpoint
from llmcli.models.safetensors_header import TensorFacts
from llmcli.models.source import HubSource

_AT_ONCE = 8
_SECONDS = 15.0
_TOKENIZER = "tokenizer.json"


@dataclass(frozen=True, slots=True)
class HubFacts:
    """A model on the hub.

    source: where it was found; commit: of its revision. config: its config.json, now in the hub's cache. checkpoint:
    its tensors, none of them fetched.
    """

    source: HubSource
    commit: str
    config: Path
    checkpoint: Checkpoint


def read_headers(source: HubSource, near: str | None = None) -> HubFacts:
    """Fetch config.json and the headers of the weights, some kilobytes of each file.

    Raises ModelNotFound, ModelError or LlmcliError for what the hub, the network or the disk refuses; near: an alias
    like the id, for the message.
    """
    with hub_errors.translated(source, near):
        if hub.offline():
            raise ModelNotFound(
                f"{source.repo} is not on this disk, and HF_HUB_OFFLINE is set", "Unset it to look it up."
            )
        repository = hub.look_up(source)
        names = repository.sizes
        hub.fetch(repository, hub_files.first_files(source.repo, names), lambda _: None, lambda: None)
        files = hub_files.weight_files(repository.snapshot, names)
        tensors = _tensors(repository, files)
    paths = tuple(repository.snapshot / name for name in files)
    return HubFacts(source, repository.commit, repository.snapshot / hub_files.CONFIG, Checkpoint(paths, tensors))


def fetch_tokenizer(facts: HubFacts) -> Path | None:
    """Fetch tokenizer.json; None when the repository has none. Raises as `read_headers`."""
    with hub_errors.translated(facts.source):
        repository = hub.look_up(facts.source)
        if _TOKENIZER not in repository.sizes:
            return None
        hub.fetch(repository, [_TOKENIZER], lambda _: None, lambda: None)
        return repository.snapshot / _TOKENIZER


def _tensors(repository: hub.Repository, files: Iterable[str]) -> tuple[TensorFacts, ...]:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        headers = pool.map(lambda name: _header(repository, name), files)
        return tuple(tensor for header in headers for tensor in header)


def _header(repository: hub.Repository, name: str) -> tuple[TensorFacts, ...]:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import SafetensorsParsingError

    repo = repository.source.repo
    try:
        header = HfApi().parse_safetensors_file_metadata(repo, name, revision=repository.commit, timeout=_SECONDS)
        return tuple(_facts(key, tensor, repository.snapshot / name) for key, tensor in header.tensors.items())
    except (SafetensorsParsingError, ValueError, TypeError) as error:
        raise ModelError(
            f"{repo}: the header of {name} is damaged", "Try another revision (ORG/NAME@REVISION)."
        ) from error


def _facts(name: str, tensor: Any, file: Path) -> TensorFacts:
    start, end = tensor.data_offsets
    if not 0 <= start <= end:
        raise ValueError(name)
    return TensorFacts(name, str(tensor.dtype), tuple(int(width) for width in tensor.shape), end - start, file)
