"""Find a model argument and read what is needed to size it: the one part of the estimate that touches files."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmcli.errors import ModelError, ModelNotFound
from llmcli.estimate.config import Config, shown
from llmcli.estimate.dtypes import canonical
from llmcli.estimate.from_config import from_config
from llmcli.estimate.from_gguf import DTYPE, from_gguf
from llmcli.estimate.plan import Subject
from llmcli.models.gguf import read_gguf
from llmcli.models.locate import Located, locate
from llmcli.models.registry import load_registry

if TYPE_CHECKING:
    from llmcli.models.safetensors import Checkpoint

CONFIG = "config.json"
_MAX_CONFIG = 2**26
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
    if located.kind == "wheel" and located.original is None:
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
        model = replace(model, dtype=_main_dtype(checkpoint))
    warnings = subject.warnings
    if checkpoint.params < model.params:
        warnings += (f"tensors are missing: the files hold {checkpoint.params} of {model.params} parameters",)
    return replace(subject, architecture=model, warnings=warnings)


def _main_dtype(checkpoint: "Checkpoint") -> str | None:
    """The number format that most of the stored bytes are in, None when it is none that a model runs in."""
    sizes: dict[str, int] = {}
    for tensor in checkpoint.tensors:
        sizes[tensor.dtype] = sizes.get(tensor.dtype, 0) + tensor.size
    return canonical(max(sizes, key=lambda dtype: sizes[dtype]))


def _catalogued(located: Located) -> Subject:
    row = None
    if located.entry and located.entry.sha256:
        row = tomllib.loads(_CATALOGUE.read_text(encoding="utf-8")).get(located.entry.sha256)
    if row is None:
        raise ModelNotFound(f"{located.name} is not on this disk", f"Fetch it first: llmcli models pull {located.name}")
    model = from_config(Config(_CATALOGUE.name, row))
    notes = (f"{located.name} is not on this disk yet: sized from llmcli's own catalogue", _FROM_GGUF)
    return Subject(located.name, model, model.positions, assumptions=notes)


def read_config(path: Path) -> Config:
    """Read a config.json. Raises ModelError when it cannot be read or is no JSON object."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_CONFIG + 1)
        if len(data) > _MAX_CONFIG:
            raise ModelError(f"{path} is too large for a config: more than {_MAX_CONFIG} bytes")
        values: Any = json.loads(data.decode())
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ModelError(f"{path} is not UTF-8 text", "Name the config.json of a transformers model.") from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ModelError(f"{path} is not valid JSON: {reason}", "Get the model's config again.") from None
    if not isinstance(values, dict):
        raise ModelError(f"{path} holds no JSON object", "Name the config.json of a transformers model.")
    return Config(str(path), values)
