"""Find a model argument and read what is needed to size it: the one part of the estimate that touches files."""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from llmcli.errors import ModelError, ModelNotFound
from llmcli.estimate.config import Config, shown
from llmcli.estimate.from_config import from_config
from llmcli.estimate.from_gguf import DTYPE, from_gguf
from llmcli.estimate.subject import Subject
from llmcli.models.gguf import read_gguf
from llmcli.models.json_file import read_json_object
from llmcli.models.locate import Located, locate
from llmcli.models.registry import load_registry

CONFIG = "config.json"
_CATALOGUE = Path(__file__).with_name("catalogue.toml")
_FROM_GGUF = f"llmcli loads a GGUF file dequantized to {DTYPE}"


def find(argument: str | None, user_registry: Path | None) -> Subject:
    """The model that `argument` names: an alias, a directory, a config file, a GGUF file; None: the default.

    Raises ModelNotFound, ModelError for a file that cannot be read or sized, ConfigError for a registry at fault.
    """
    try:
        return _find(argument, user_registry)
    except OSError as error:
        raise ModelError(f"{shown(argument)} cannot be read: {error.strerror or error}") from None


def _find(argument: str | None, user_registry: Path | None) -> Subject:
    if argument is not None and argument.lower().endswith(".json") and (path := Path(argument)).is_file():
        return _config_subject(path, path.parent.resolve().name if path.name == CONFIG else path.stem)
    located = locate(argument, load_registry(user_registry))
    subject = _located_subject(located)
    context = located.entry.context if located.entry else None
    if context is not None and (subject.limit is None or context < subject.limit):
        return replace(subject, limit=context, limited_by="the registry")
    return subject


def _located_subject(located: Located) -> Subject:
    if located.kind in {"hub", "wheel"} and located.original is None:
        return _catalogued(located)
    path = located.require()
    return _gguf_subject(path, located.name) if path.is_file() else _directory_subject(path, located.name)


def _gguf_subject(path: Path, name: str) -> Subject:
    header = read_gguf(path)
    model = from_gguf(header)
    stored = f"; on disk mostly {header.main_type}" if header.main_type else ""
    return Subject(name, model, model.positions, assumptions=(_FROM_GGUF + stored,))


def _config_subject(path: Path, name: str) -> Subject:
    model = from_config(read_config(path))
    warnings = model.warnings
    if model.quantization:
        warnings += (f"the checkpoint is quantized already ({model.quantization}): its files may be smaller",)
    return Subject(name, model, model.positions, warnings=warnings)


def _directory_subject(directory: Path, name: str) -> Subject:
    config = directory / CONFIG
    if not config.is_file():
        raise ModelError(f"{directory} has no {CONFIG}", "Name the directory of a transformers model, or a .gguf file.")
    subject = _config_subject(config, name)
    if not any(directory.glob("*.safetensors")):
        return subject
    from llmcli.models.safetensors import read_checkpoint

    checkpoint = read_checkpoint(directory)
    model = subject.architecture
    if model.quantization:
        return replace(subject, stored_bytes=checkpoint.bytes, warnings=model.warnings)
    if model.dtype is None:
        model = replace(model, dtype=checkpoint.main_dtype)
    warnings = subject.warnings
    if checkpoint.params < model.params:
        warnings += (f"tensors are missing: the files hold {checkpoint.params} of {model.params} parameters",)
    return replace(subject, architecture=model, warnings=warnings)


def catalogued_config(located: Located) -> dict[str, Any] | None:
    """What the config.json of a model that is not on this disk says, as far as llmcli's own catalogue knows it."""
    key = located.hub.repo if located.hub else located.entry.sha256 if located.entry else None
    row = tomllib.loads(_CATALOGUE.read_text(encoding="utf-8")).get(key or "")
    return None if row is None else {name: None if value == "" else value for name, value in row.items()}


def _catalogued(located: Located) -> Subject:
    values = catalogued_config(located)
    if values is None:
        raise ModelNotFound(
            f"{located.name} is not on this disk", f"Fetch it first: llmcli models pull {located.argument}"
        )
    model = from_config(Config(f"{_CATALOGUE.name}, {located.name}", values))
    absent = f"{located.name} is not on this disk yet: sized from llmcli's own catalogue"
    notes = (absent, _FROM_GGUF) if located.kind == "wheel" else (absent,)
    return Subject(located.name, model, model.positions, assumptions=notes)


def read_config(path: Path) -> Config:
    """Read a config.json. Raises ModelError when it cannot be read or is no JSON object."""
    return Config(str(path), read_json_object(path))
