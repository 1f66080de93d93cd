"""Whether a directory holds a whole decoder-only language model, told from its files without loading it."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmcli import paths
from llmcli.errors import ModelError, ModelNotFound
from llmcli.load_rules import stored_quant
from llmcli.models import magic
from llmcli.models.generative import refuse_unless_decoder
from llmcli.models.json_file import read_json_object
from llmcli.models.safetensors import RUNNABLE, Checkpoint, read_checkpoint
from llmcli.units import some

_TOKENIZERS: tuple[tuple[frozenset[str], str | None], ...] = (
    (frozenset({"tokenizer.json"}), None),
    (frozenset({"vocab.json", "merges.txt"}), None),
    (frozenset({"vocab.txt"}), None),
    (frozenset({"tokenizer.model"}), "sentencepiece"),
    (frozenset({"spiece.model"}), "sentencepiece"),
    (frozenset({"sentencepiece.bpe.model"}), "sentencepiece"),
    (frozenset({"tekken.json"}), "mistral_common"),
)
"""Files that make a tokenizer, and the package that reads them where llmcli does not bring it."""


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
    _refuse_left_over(path, config)
    refuse_unless_decoder(config, paths.display(path))
    if tokenizer_needed:
        _check_tokenizer(path)
    if (path / "generation_config.json").exists():
        read_json_object(path / "generation_config.json")
    checkpoint = read_checkpoint(path)
    if stored_quant(config) is None:
        _check_numbers(path, checkpoint)
    _check_layers(path, config, checkpoint)
    return Facts(
        model_type=config["model_type"],
        architectures=tuple(config.get("architectures") or ()),
        config=config,
        checkpoint=checkpoint,
        remote_code="auto_map" in config,
    )


def _refuse_left_over(path: Path, config: dict[str, Any]) -> None:
    """Refuse a quantization that config.json tells of and the weights know nothing of: it is from before a merge."""
    key = next((key for key in ("quantization_config", "compression_config") if config.get(key)), None)
    if key is None:
        return
    try:
        checkpoint = read_checkpoint(path)
    except ModelError:  # told after what config.json alone gives reason to refuse
        return
    if all(_plain(tensor.dtype) for tensor in checkpoint.tensors):
        raise ModelError(
            f"{paths.display(path / 'config.json')} says that the weights are quantized ({key}), "
            f"but they are stored plainly, in {checkpoint.main_dtype or 'float64'}",
            f"Left over from before the weights were merged? Then delete {key} from that file.",
        )


def _check_numbers(path: Path, checkpoint: Checkpoint) -> None:
    """Refuse weights that are packed integers: run as if they were numbers, they would make nonsense."""
    packed = [tensor for tensor in checkpoint.tensors if tensor.name.endswith(".weight") and not _plain(tensor.dtype)]
    if packed:
        raise ModelError(
            f"{paths.display(path)} holds weights in {packed[0].dtype} ({some(tensor.name for tensor in packed)}), "
            "but config.json does not say how they are quantized",
            "Take the model's 16-bit weights; --quant nf4 quantizes them while loading.",
        )


def _plain(dtype: str) -> bool:
    return dtype in RUNNABLE or dtype == "F64"


def _check_layers(path: Path, config: dict[str, Any], checkpoint: Checkpoint) -> None:
    """Refuse a number of layers that the weights cannot fill, before anything is built from it."""
    for key in ("num_hidden_layers", "n_layer", "n_layers", "num_layers"):
        layers = config.get(key)
        if layers is None:
            continue
        if isinstance(layers, bool) or not isinstance(layers, int) or not 1 <= layers <= len(checkpoint.tensors):
            raise ModelError(
                f"{paths.display(path / 'config.json')}: {key} = {layers!r} does not fit weights of "
                f"{len(checkpoint.tensors)} tensors",
                "Config and weights do not belong together: fetch the model again.",
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
    config = read_json_object(file)
    if not (isinstance(config.get("model_type"), str) and config["model_type"]):
        code = "the model relies on code of its repository, which is never run" if "auto_map" in config else None
        raise ModelError(f"{paths.display(file)} names no model_type" + (f": {code}" if code else ""))
    return config


def has_tokenizer(path: Path) -> bool:
    """Whether the files of a tokenizer are in a directory."""
    return _tokenizer(path) is not None


def _tokenizer(path: Path) -> tuple[frozenset[str], str | None] | None:
    return next((kind for kind in _TOKENIZERS if all((path / name).is_file() for name in kind[0])), None)


def _check_tokenizer(path: Path) -> None:
    found = _tokenizer(path)
    if found is None:
        raise ModelError(
            f"{paths.display(path)} has no tokenizer: neither tokenizer.json nor tokenizer.model",
            "Copy the tokenizer files of the model there.",
        )
    names, package = found
    for name in sorted(names):
        kind = magic.file_kind(path / name)
        if kind.startswith(("an empty", "a Git LFS", "a web page")):
            raise ModelError(f"{paths.display(path / name)} is {kind}", "Fetch it again.")
    if package is not None and importlib.util.find_spec(package) is None:
        raise ModelError(
            f"{paths.display(path)} has only {min(names)} as its tokenizer, which the package {package} reads",
            f"Install {package} beside llmcli, or copy the model's tokenizer.json there.",
        )
