"""A model of the hub into the hub's own cache: what it is and what it takes comes first, its weights last."""

from pathlib import Path
from typing import Any

from llmcli import console
from llmcli.cli.fitting import Weights, require_memory
from llmcli.cli.options import ModelOptions
from llmcli.errors import ModelError
from llmcli.models import hub, hub_cache, hub_files
from llmcli.models.generative import refuse_unless_decoder
from llmcli.models.hub_errors import CACHE_HINT, translated
from llmcli.models.integrity import check_directory, read_config
from llmcli.models.locate import Located
from llmcli.models.store import require_space
from llmcli.units import bytes_text


def fetch_hub(located: Located, options: ModelOptions | None) -> Path:
    """Fetch what is not in the cache yet of the revision's newest commit, and return the commit's folder.

    options: what the model is to be loaded with; None when it is not to be loaded now. Raises ModelError for what
    llmcli cannot run before any weights are fetched, OutOfMemory when they fit neither memory nor disk.
    """
    source = located.hub
    if source is None:
        raise ModelError(f"{located.source} cannot be fetched")
    with translated(source, located.near):
        repository = hub.look_up(source)
        weights = _first(repository)
        if options is not None:
            require_memory(located.name, _known(repository, weights), options)
        _rest(located.name, repository, weights)
        hub_cache.write_reference(source, repository.commit)
    check_directory(repository.snapshot)
    return repository.snapshot


def _first(repository: hub.Repository) -> list[str]:
    """Fetch the config and see whether llmcli runs such a model; the names of the weights' files."""
    repo, names = repository.source.repo, repository.sizes
    hub.fetch(repository, hub_files.first_files(repo, names), lambda _arrived: None, _waiting)
    refuse_unless_decoder(read_config(repository.snapshot), repo)
    return hub_files.weight_files(repository.snapshot, names)


def _known(repository: hub.Repository, weights: list[str]) -> Weights:
    config = read_config(repository.snapshot)
    return Weights(config, sum(repository.sizes[name] for name in weights), _dtype(config))


def _dtype(config: dict[str, Any]) -> str | None:
    named = config.get("dtype") or config.get("torch_dtype")
    return named.removeprefix("torch.") if isinstance(named, str) else None


def _rest(name: str, repository: hub.Repository, weights: list[str]) -> None:
    """Fetch tokenizer and weights, with one bar over all bytes."""
    files = repository.absent((*hub_files.companions(repository.sizes), *weights))
    if not files:
        return
    total = sum(repository.sizes[file] for file in files)
    missing = total - hub.bytes_there(repository, files)
    require_space(hub_cache.cache_dir(), missing, f"fetching {name}", CACHE_HINT)
    console.say(_announcement(name, repository, len(files), total, missing))
    with console.progress("fetch", unit="bytes", announced=True) as report:
        done = 0

        def count(arrived: int) -> None:
            nonlocal done
            done += arrived
            report(min(done, total), total)

        hub.fetch(repository, files, count, _waiting)


def _announcement(name: str, repository: hub.Repository, files: int, total: int, missing: int) -> str:
    noun = "files" if files > 1 else "file"
    whole, left = "", ""
    if missing < total:
        whole, left = "whole ", f", {bytes_text(missing)} of it still to come"
    return (
        f"{name} is not {whole}on this disk: fetching {files} {noun}, {bytes_text(total)}{left}, "
        f"from {repository.source} (commit {repository.commit[:12]})"
    )


def _waiting() -> None:
    console.say("another process is fetching this file; waiting for it …")
