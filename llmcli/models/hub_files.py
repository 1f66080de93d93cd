"""Which files of a hub repository are needed to load it; what holds no model for llmcli is told from the names."""

from collections.abc import Collection, Iterable
from pathlib import Path, PurePosixPath

from llmcli.errors import ModelError
from llmcli.models.safetensors import INDEX, SINGLE, read_index
from llmcli.units import some

CONFIG = "config.json"
_TOKENIZER = {
    "added_tokens.json",
    "chat_template.jinja",
    "merges.txt",
    "sentencepiece.bpe.model",
    "special_tokens_map.json",
    "spiece.model",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
}
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_TEMPLATES = "additional_chat_templates"
_RUNS = "llmcli runs decoder-only language models in safetensors or GGUF files."


def first_files(repo: str, names: Collection[str]) -> list[str]:
    """The files that tell what the model is: its config, and the index of its weights.

    Raises ModelError for a repository without config or without safetensors weights, saying what it holds instead.
    """
    if CONFIG not in names:
        raise _without_config(repo, names)
    if SINGLE in names:
        return [CONFIG]
    if INDEX in names:
        return [CONFIG, INDEX]
    raise _without_weights(repo, names)


def companions(names: Collection[str]) -> list[str]:
    """Generation settings, tokenizer and chat templates: small files beside the weights."""
    wanted = _TOKENIZER | {"generation_config.json"}
    if not wanted & set(names) & {"tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt"}:
        wanted = wanted | {"tekken.json"}
    return sorted(name for name in names if name in wanted or _template(name))


def weight_files(snapshot: Path, names: Collection[str]) -> list[str]:
    """The files of the weights: model.safetensors, or the shards that the index in `snapshot` names.

    Raises ModelError when the repository lacks a shard.
    """
    if SINGLE in names:
        return [SINGLE]
    shards = sorted(set(read_index(snapshot / INDEX).values()))
    if missing := [shard for shard in shards if shard not in names]:
        raise ModelError(
            f"the repository lacks {some(missing)} of the {len(shards)} files that its index lists",
            "It is incomplete on the hub: try another revision (ORG/NAME@REVISION).",
        )
    return shards


def _template(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix == ".jinja" and str(path.parent) in {".", _TEMPLATES}


def _without_config(repo: str, names: Collection[str]) -> ModelError:
    if "adapter_config.json" in names:
        return ModelError(
            f"{repo} holds an adapter (LoRA), not a model", "Merge it into its base model, and give that directory."
        )
    if ggufs := _ending(names, (".gguf",)):
        return _gguf_only(repo, ggufs)
    if "model_index.json" in names:
        return ModelError(f"{repo} holds a diffusion pipeline, not a language model", _RUNS)
    if "params.json" in names:
        return ModelError(
            f"{repo} has no config.json: its weights are in their maker's own format",
            "Look for the same model in transformers' format (often the name ends in -hf).",
        )
    return ModelError(f"{repo} has no config.json: it holds no transformers model", _RUNS)


def _without_weights(repo: str, names: Collection[str]) -> ModelError:
    if any(name.endswith(".safetensors") for name in names):
        return ModelError(
            f"{repo} has neither {SINGLE} nor {INDEX} beside its config.json",
            "Try another revision (ORG/NAME@REVISION), or download the files and rename them.",
        )
    if ggufs := _ending(names, (".gguf",)):
        return _gguf_only(repo, ggufs)
    if pickled := _ending(names, _PICKLED):
        return ModelError(
            f"{repo} holds only pickled weights ({some(pickled)}), which are never loaded: they can run any code",
            "Look for a repository, or a revision (ORG/NAME@REVISION), with safetensors files.",
        )
    return ModelError(f"{repo} holds no weights in safetensors files", _RUNS)


def _gguf_only(repo: str, ggufs: list[str]) -> ModelError:
    return ModelError(
        f"{repo} holds GGUF files only ({some(ggufs)})",
        f"Download one and give its path: hf download {repo} {ggufs[0]} --local-dir .",
    )


def _ending(names: Iterable[str], ends: tuple[str, ...]) -> list[str]:
    return sorted(name for name in names if name.lower().endswith(ends) and name != "training_args.bin")
