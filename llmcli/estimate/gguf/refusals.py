"""GGUF files that cannot be sized, and those that can be sized only in part."""

from collections.abc import Mapping

from llmcli.estimate.gguf.architectures import KNOWN
from llmcli.estimate.gguf.keys import Keys
from llmcli.estimate.refusals import refuse
from llmcli.models.gguf import GgufHeader

_ENCODER = "an encoder, which writes no text and has no KV cache"
_DIFFUSION = "a diffusion model, which has no KV cache"
_DRAFT = "a draft head, which uses the cache of another model"
_REASONS: Mapping[str, str] = {
    "bert": _ENCODER,
    "clip": "the vision or audio part of a multimodal model, which has no KV cache",
    "deepseek4": "its cache of compressed rows is not known for GGUF files",
    "dflash": _DRAFT,
    "dream": _DIFFUSION,
    "eagle3": _DRAFT,
    "eurobert": _ENCODER,
    "gemma-embedding": _ENCODER,
    "gemma4-assistant": _DRAFT,
    "graniteswitch": "its router layer is not known here",
    "jina-bert-v2": _ENCODER,
    "jina-bert-v3": _ENCODER,
    "llada": _DIFFUSION,
    "llada-moe": _DIFFUSION,
    "modern-bert": _ENCODER,
    "nanbeige": "layers that run several times are not known here",
    "neo-bert": _ENCODER,
    "nomic-bert": _ENCODER,
    "nomic-bert-moe": _ENCODER,
    "pockettts": "a speech model",
    "qwen3tts": "a speech model",
    "rnd1": _DIFFUSION,
    "t5": "an encoder-decoder model",
    "t5encoder": _ENCODER,
    "wavtokenizer-dec": "a speech model",
}
_STATES = (
    "ssm.state_size",
    "ssm.conv_kernel",
    "ssm.inner_size",
    "wkv.head_size",
    "shortconv.l_cache",
    "kda.head_dim",
    "full_attention_interval",
    "attention.recurrent_layers",
)
_UNCOUNTED_INDEX = frozenset({"glm5-next", "minimax-m3", "qwen4exp"})
_CACHED_DRAFTS = frozenset({"bailingmoe3", "kimi-k3", "kimi-linear", "nemotron_h", "nemotron_h_moe"})


def refuse_unsized(header: GgufHeader) -> None:
    """Raise ModelError, with the reason, for a file that is no language model or keeps what is not known here."""
    name = header.architecture
    kind = header.metadata.get("general.type", "model")
    if kind != "model":
        raise refuse(str(header.path), name, f"general.type = {kind!r}, a part that goes with a model")
    if name in _REASONS:
        raise refuse(str(header.path), name, _REASONS[name])
    if name in KNOWN:
        return
    for key in _STATES:
        if header.field(key):
            reason = f"an architecture that is not known here, with recurrent layers ({name}.{key})"
            raise refuse(str(header.path), name, reason)


def incomplete(keys: Keys) -> str | None:
    """What a file keeps beyond what is counted; None where all is counted."""
    if keys.architecture in _UNCOUNTED_INDEX and keys.size("attention.indexer.key_length"):
        return "the keys of its sparse-attention indexer are not counted"
    if keys.architecture in _CACHED_DRAFTS and keys.all_layers > keys.layers:
        return "llama.cpp may keep a cache for its draft blocks as well, which is not counted"
    return None
