"""A directory's weights: which safetensors files belong to the model, and whether all of them are there, whole."""

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from llmcli import paths
from llmcli.errors import ModelError
from llmcli.models import magic
from llmcli.models.safetensors_header import TensorFacts, read_header
from llmcli.units import some

__all__ = ["INDEX", "SINGLE", "Checkpoint", "TensorFacts", "read_checkpoint", "read_header", "read_index"]

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"

_SHARD = re.compile(r".*-\d{5}-of-(\d{5})\.safetensors")
RUNNABLE = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""Number formats that models run in: safetensors' names -> torch's."""

_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The weights of a model as they are stored: tied tensors count once."""

    files: tuple[Path, ...]
    tensors: tuple[TensorFacts, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.size for tensor in self.tensors)

    @property
    def main_dtype(self) -> str | None:
        """The number format, in torch's words, that most of the bytes are in; None when models do not run in it."""
        sizes: Counter[str] = Counter()
        for tensor in self.tensors:
            sizes[tensor.dtype] += tensor.size
        return RUNNABLE.get(sizes.most_common(1)[0][0]) if sizes else None

    @property
    def params(self) -> int:
        """Values in all tensors."""
        return sum(tensor.elements for tensor in self.tensors)


def read_checkpoint(directory: Path) -> Checkpoint:
    """Read the headers of a directory's weights: model.safetensors, or the shards of its index.

    Raises ModelError when weights are missing, incomplete, damaged or pickled; the files and tensors are named.
    """
    names = _listing(directory)
    index = read_index(directory / INDEX) if INDEX in names else {}
    if SINGLE in names:
        files = [SINGLE]
    elif index:
        files = sorted(set(index.values()))
    else:
        _refuse_without_index(directory, names)
    if missing := [name for name in files if not (directory / name).is_file()]:
        problem = f"{paths.display(directory)} lacks {some(missing)} of the {len(files)} files that its index lists"
        raise ModelError(problem, "Incomplete download or copy? Fetch the missing files.")
    tensors = tuple(tensor for name in files for tensor in read_header(directory / name))
    if not tensors:
        raise ModelError(f"{paths.display(directory / files[0])} holds no tensors", "Fetch the weights again.")
    _check_index(directory, index, tensors)
    return Checkpoint(tuple(directory / name for name in files), tensors)


def _listing(directory: Path) -> set[str]:
    try:
        return {path.name for path in directory.iterdir()}
    except OSError as error:
        raise magic.unreadable(directory, error) from None


def read_index(path: Path) -> dict[str, str]:
    """Tensor name to file name. Raises ModelError for a file that is no index, or names files elsewhere."""
    magic.file_size(path)
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise magic.unreadable(path, error) from None
    except (ValueError, RecursionError):
        raise ModelError(f"{paths.display(path)} is no JSON but {magic.file_kind(path)}", "Fetch it again.") from None
    index = content.get("weight_map") if isinstance(content, dict) else None
    if not (isinstance(index, dict) and index and all(isinstance(name, str) for name in index.values())):
        raise ModelError(f"{paths.display(path)} has no weight_map", "Fetch it again.")
    if outside := [name for name in index.values() if Path(name).name != name]:
        raise ModelError(f"{paths.display(path)} lists {outside[0]!r}, which is no name of a file beside it")
    return index


def _check_index(directory: Path, index: dict[str, str], tensors: tuple[TensorFacts, ...]) -> None:
    held = {tensor.name: tensor.file.name for tensor in tensors}
    absent = [name for name in index if name not in held]
    if absent:
        noun = "tensors" if len(absent) > 1 else "tensor"
        home = index[min(absent)] if (directory / index[min(absent)]).is_file() else SINGLE
        raise ModelError(
            f"{paths.display(directory / home)} lacks the {noun} {some(absent)}, which {INDEX} lists",
            "The files are of different exports or incomplete: fetch the model again.",
        )


def _refuse_without_index(directory: Path, names: set[str]) -> NoReturn:
    weights = sorted(name for name in names if name.endswith(".safetensors"))
    shown = paths.display(directory)
    if "adapter_config.json" in names and "config.json" not in names:
        raise ModelError(f"{shown} holds an adapter, not a model", "Merge it into its base model first.")
    if any(_SHARD.fullmatch(name) for name in weights):
        raise ModelError(f"{shown} lacks {INDEX}, which says what its shards hold", "Fetch that file as well.")
    if len(weights) > 1:
        raise ModelError(f"{shown} holds {len(weights)} safetensors files and no index: {some(weights)}")
    if weights:
        raise ModelError(
            f"{shown} holds {weights[0]}, a name that is not loaded", f"Is it the model? Rename it to {SINGLE}."
        )
    raise _no_weights(directory, names)


def _no_weights(directory: Path, names: set[str]) -> ModelError:
    shown = paths.display(directory)
    if pickled := [name for name in names if name.endswith(_PICKLED) and name != "training_args.bin"]:
        return ModelError(
            f"{shown} holds only pickled weights ({some(pickled)}), which are never loaded: they can run any code",
            "Convert them once, if you trust them: AutoModelForCausalLM.from_pretrained(OLD).save_pretrained(NEW).",
        )
    if ggufs := [name for name in names if name.lower().endswith(".gguf")]:
        return ModelError(f"no safetensors weights in {shown}", f"Give the GGUF file itself: {some(ggufs)}.")
    return ModelError(f"no weights in {shown}", f"A model's directory holds {SINGLE}, or shards and {INDEX}.")
