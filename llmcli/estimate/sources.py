"""Find a model argument and read what is needed to size it: the one part of the estimate that touches files."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from llmcli import paths
from llmcli.errors import ConfigError, LlmcliError, ModelError, ModelNotFound
from llmcli.estimate import catalogue, names
from llmcli.estimate.config import Config, shown
from llmcli.estimate.from_config import from_config
from llmcli.estimate.gguf.from_gguf import from_gguf
from llmcli.estimate.subject import Subject
from llmcli.models import store
from llmcli.models.gguf_parts import read_parts
from llmcli.models.json_file import read_json_object
from llmcli.models.locate import Located, locate
from llmcli.models.registry import Registry, load_registry
from llmcli.models.safetensors import Checkpoint
from llmcli.models.source import HubSource

CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
_OWN = "sized from llmcli's own catalogue"


def find(argument: str | None, user_registry: Path | None) -> Subject:
    """The model that `argument` names; None: the registry's default.

    An alias, a directory, a config file, a GGUF file, a name of the catalogue, or a hub id, of which config and headers
    are fetched. Raises ModelNotFound, ModelError for a file that cannot be read or sized, ConfigError for a registry at
    fault, LlmcliError for a hub that does not answer.
    """
    try:
        return _find(argument, user_registry)
    except OSError as error:
        raise ModelError(f"{shown(argument)} cannot be read: {error.strerror or error}") from None


def known_alias(alias: str, registry: Registry) -> Subject | None:
    """The model of an alias as far as this disk and the catalogue know it; None where the hub would have to be asked.

    Raises as `find`.
    """
    located = locate(alias, registry)
    if located.original is None and located.hub is not None and catalogue.row_of(catalogue_key(located)) is None:
        return None
    return _entry_subject(located)


def _find(argument: str | None, user_registry: Path | None) -> Subject:
    if argument is not None and argument.lower().endswith(".json") and (path := Path(argument)).is_file():
        return _config_subject(path, path.parent.resolve().name if path.name == CONFIG else path.stem)
    if argument is not None and argument.lower().endswith(".json") and not Path(argument).exists():
        raise ModelNotFound(f"{paths.display(Path(argument))}: no such file", "Name the config.json of a model.")
    registry = load_registry(user_registry)
    if argument is not None and (name := _name_meant(argument, registry)):
        subject = _named(name, registry)
        note = () if name == argument else (f"{argument} is taken for {name}",)
        return replace(subject, assumptions=(*note, *subject.assumptions))
    return _entry_subject(_locate(argument, registry))


def _name_meant(argument: str, registry: Registry) -> str | None:
    """The alias or name of the catalogue that is meant; None for a path that exists, a hub id and an unknown name."""
    if argument in registry or Path(argument).exists():
        return argument if argument in registry else None
    if catalogue.repository_named(argument):
        return argument.lower()
    return None if "/" in argument else names.meant(argument, (*_spellings(registry), *catalogue.spellings()))


def _spellings(registry: Registry) -> Iterator[tuple[str, str]]:
    """Every alias with itself, and with its repository on the hub."""
    for alias in registry.names():
        yield alias, alias
        with suppress(ConfigError):
            source = registry.entry(alias).parsed_source()
            if isinstance(source, HubSource):
                yield source.repo, alias


def _named(name: str, registry: Registry) -> Subject:
    if name in registry:
        return _entry_subject(locate(name, registry))
    repository = catalogue.repository_named(name) or ""
    return _catalogued(name, repository, f"{name} ({repository}): {_OWN}")


def _entry_subject(located: Located) -> Subject:
    """The model, with the context limit of its entry in the registry where that is the smaller one."""
    subject = _located_subject(located)
    context = located.entry.context if located.entry else None
    if context is not None and (subject.limit is None or context < subject.limit):
        return replace(subject, limit=context, limited_by="the registry")
    return subject


def _locate(argument: str | None, registry: Registry) -> Located:
    try:
        return locate(argument, registry)
    except ModelNotFound as error:
        alike = names.like(argument or "", (*_spellings(registry), *catalogue.spellings()))
        hint = f"Known here: {', '.join(alike)}, and any id of the hub (ORG/NAME)." if alike else error.hint
        raise ModelNotFound(error.message, hint) from None


def _located_subject(located: Located) -> Subject:
    if located.original is not None or located.kind not in {"hub", "wheel"}:
        path = located.require()
        return _gguf_subject(path, located) if path.is_file() else _directory_subject(path, located.name)
    key = catalogue_key(located)
    if catalogue.row_of(key) is not None:
        note = f"{located.name} is not on this disk yet: {_OWN}"
        subject = _catalogued(located.name, key or "", note)
        return replace(subject, packed=True) if located.kind == "wheel" else subject
    if located.hub is not None:
        return _looked_up(located, located.hub)
    raise ModelNotFound(f"{located.name} is not on this disk", f"Fetch it first: llmcli models pull {located.argument}")


def _gguf_subject(path: Path, located: Located) -> Subject:
    """A GGUF file; config and tokenizer are those that it was converted to, where that has been done."""
    parts = read_parts(path)
    model = from_gguf(*parts)
    slot = store.slot(located)
    converted = slot.converted if slot.ready else None
    return Subject(
        located.name,
        model,
        model.positions,
        config=read_json_object(converted / CONFIG) if converted else None,
        tokenizer=lambda: converted / TOKENIZER if converted else None,
        stored_bytes=sum(part.tensor_bytes for part in parts),
        stored_type=max(parts, key=lambda part: part.tensor_bytes).main_type,
        packed=True,
        warnings=model.warnings,
    )


def _config_subject(path: Path, name: str) -> Subject:
    values = read_json_object(path)
    model = from_config(Config(str(path), values))
    beside = path.with_name(TOKENIZER)
    return Subject(
        name,
        model,
        model.positions,
        config=values,
        tokenizer=lambda: beside if beside.is_file() else None,
        warnings=model.warnings,
    )


def _directory_subject(directory: Path, name: str) -> Subject:
    config = directory / CONFIG
    if not config.is_file():
        raise ModelError(f"{directory} has no {CONFIG}", "Name the directory of a transformers model, or a .gguf file.")
    subject = _config_subject(config, name)
    if not any(directory.glob("*.safetensors")):
        return subject
    from llmcli.models.safetensors import read_checkpoint

    return _with_weights(subject, read_checkpoint(directory))


def _looked_up(located: Located, source: HubSource) -> Subject:
    """As `_hub_subject`; where that fails, the error names the model of the catalogue that is written alike."""
    try:
        return _hub_subject(located, source)
    except LlmcliError as error:
        alike = names.meant(source.repo, catalogue.spellings())
        if alike is not None:
            error.hint = f"{error.hint or ''} llmcli's own catalogue has {alike}.".lstrip()
        raise


def _hub_subject(located: Located, source: HubSource) -> Subject:
    """A model that is only on the hub: its config and the headers of its weights."""
    from llmcli.models.hub_header import fetch_tokenizer, read_headers

    facts = read_headers(source, located.near)
    subject = _with_weights(_config_subject(facts.config, located.name), facts.checkpoint)
    looked_up = f"{located.name} is not on this disk: config and headers of {facts.commit[:12]} on the hub"
    return replace(subject, tokenizer=lambda: fetch_tokenizer(facts), assumptions=(looked_up, *subject.assumptions))


def _with_weights(subject: Subject, checkpoint: Checkpoint) -> Subject:
    """With the bytes of the tensors as they are stored, and the dtype where the config leaves it open."""
    model = subject.architecture
    subject = replace(subject, stored_bytes=checkpoint.bytes)
    if model.quantization:
        return subject
    if model.dtype is None:
        subject = replace(subject, architecture=replace(model, dtype=checkpoint.main_dtype))
    if checkpoint.params < model.params:
        missing = f"tensors are missing: the files hold {checkpoint.params} of {model.params} parameters"
        return replace(subject, warnings=(*subject.warnings, missing))
    return subject


def _catalogued(name: str, key: str, note: str) -> Subject:
    values = catalogue.row_of(key)
    model = from_config(Config(f"{catalogue.FILE.name}, {name}", values or {}))
    return Subject(name, model, model.positions, config=values, assumptions=(note,), warnings=model.warnings)


def catalogue_key(located: Located) -> str | None:
    """What the catalogue knows a model by that is not on this disk."""
    return located.hub.repo if located.hub else located.entry.sha256 if located.entry else None


def catalogued_config(located: Located) -> dict[str, Any] | None:
    """What the config.json of a model that is not on this disk says, as far as llmcli's own catalogue knows it."""
    return catalogue.row_of(catalogue_key(located))
