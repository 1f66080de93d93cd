"""Whether a directory holds a whole decoder-only language model, told from its files without loading it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmcli import paths
from llmcli.errors import ModelError, ModelNotFound
from llmcli.models import magic
from llmcli.models.generative import refuse_unless_decoder
from llmcli.models.safetensors import Checkpoint, read_checkpoint

_TOKENIZERS = (
    {"tokenizer.json"},
    {"tokenizer.model"},
    {"vocab.json", "merges.txt"},
    {"vocab.txt"},
    {"spiece.model"},
    {"sentencepiece.bpe.model"},
    {"tekken.json"},
)


@dataclass(frozen=True, slots=True)
class Facts:
    """A model directory. config: config.json as it is. remote_code: the repository ships code, which is never run."""

    model_type: str
    architectures: tuple[str, ...]
    config: dict[str, Any]
    checkpoint: Checkpoint
    remote_code: bool


def check_directory(path: Path, *, tokenizer_needed: bool = True) -> Facts:
    """Check config, kind of model, tokenizer and weights of a directory; headers only, no weights are read.

    Raises ModelError naming what is missing, damaged or not supported; ModelNotFound when there is no directory.
    """
    if not path.is_dir():
        raise ModelNotFound(f"{paths.display(path)} is no directory")
    config = read_config(path)
    refuse_unless_decoder(config, paths.display(path))
    if tokenizer_needed:
        _check_tokenizer(path)
    return Facts(
        model_type=config["model_type"],
        architectures=tuple(config.get("architectures") or ()),
        config=config,
        checkpoint=read_checkpoint(path),
        remote_code="auto_map" in config,
    )


def read_config(path: Path) -> dict[str, Any]:
    """The content of DIR/config.json, which has a model_type. Raises ModelError."""
    file = path / "config.json"
    if not file.exists():
        adapter = (path / "adapter_config.json").exists()
        raise ModelError(
            f"{paths.display(path)} has no config.json" + (": it holds an adapter, not a model" if adapter else ""),
            "Merge the adapter into its base model first." if adapter else "Is it the directory of a model?",
        )
    magic.file_size(file)
    try:
        config = json.loads(file.read_bytes())
    except OSError as error:
        raise magic.unreadable(file, error) from None
    except (ValueError, RecursionError):
        raise ModelError(
            f"{paths.display(file)} is no valid JSON: it is {magic.file_kind(file)}", "Fetch it again."
        ) from None
    if not isinstance(config, dict):
        raise ModelError(f"{paths.display(file)} is no JSON object", "Fetch it again.")
    if not (isinstance(config.get("model_type"), str) and config["model_type"]):
        code = "the model relies on code of its repository, which is never run" if "auto_map" in config else None
        raise ModelError(f"{paths.display(file)} names no model_type" + (f": {code}" if code else ""))
    return config


def _check_tokenizer(path: Path) -> None:
    for names in _TOKENIZERS:
        if all((path / name).is_file() for name in names):
            for name in names:
                kind = magic.file_kind(path / name)
                if kind.startswith(("an empty", "a Git LFS", "a web page")):
                    raise ModelError(f"{paths.display(path / name)} is {kind}", "Fetch it again.")
            return
    raise ModelError(
        f"{paths.display(path)} has no tokenizer: neither tokenizer.json nor tokenizer.model",
        "Copy the tokenizer files of the model there.",
    )
