"""From a GGUF header to the facts that sizes follow from, as the model that transformers makes of the file.

transformers dequantizes every tensor on load; the parameters are counted from the tensors themselves.
"""

from llmcli.errors import ModelError
from llmcli.estimate import config as keys
from llmcli.estimate.architecture import Architecture
from llmcli.estimate.config import Config
from llmcli.estimate.counts import Count
from llmcli.estimate.facts import Attention, Layer
from llmcli.estimate.refusals import refuse
from llmcli.models.gguf import GgufHeader, GgufTensor
from llmcli.models.gguf_checks import refuse_short, refuse_split

MODEL_TYPES = {
    "bloom": "bloom",
    "gpt2": "gpt2",
    "llama": "llama",
    "nemotron": "nemotron",
    "phi3": "phi3",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "stablelm": "stablelm",
    "starcoder2": "starcoder2",
}
"""GGUF architecture: transformers' model type, for what transformers reads and the estimate knows."""

DTYPE = "bfloat16"
_REASONS = (
    ("expert_count", "a mixture of experts (MoE)"),
    ("attention.kv_lora_rank", "multi-head latent attention (MLA)"),
    ("ssm.state_size", "recurrent (state-space) layers"),
    ("ssm.conv_kernel", "recurrent (state-space) layers"),
    ("attention.shared_kv_layers", "layers that share one KV cache"),
    ("attention.sliding_window_pattern", "sliding-window attention"),
)
_NO_PARAMETERS = ("rope_freqs", "rope_factors")


def from_gguf(header: GgufHeader) -> Architecture:
    """The facts in a GGUF header. Raises ModelError that names what is missing, wrong, or cannot be sized yet."""
    model_type = _model_type(header)
    config = Config(str(header.path), {key: value for key, value in _fields(header).items() if value is not None})
    heads = config.needed(("attention.head_count",))
    kv_heads = config.count(("attention.head_count_kv",)) or heads
    head_dim = _head_dim(config, heads)
    layers = config.needed(("block_count",), limit=keys.MAX_LAYERS)
    _compare_with_tensors(header, heads, kv_heads, head_dim)
    parameters = [tensor for tensor in header.tensors if not tensor.name.startswith(_NO_PARAMETERS)]
    return Architecture(
        model_type=model_type,
        layers=(Layer((Attention(kv_heads, head_dim, head_dim),)),) * layers,
        count=Count(
            total=sum(tensor.elements for tensor in parameters),
            linear=sum(tensor.elements for tensor in parameters if _is_linear(tensor)),
            rows=sum(tensor.shape[-1] for tensor in parameters if _is_linear(tensor)),
        ),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        hidden=config.count(("embedding_length",)) or 0,
        intermediate=config.count(("feed_forward_length",)) or 0,
        vocabulary=0,
        dtype=DTYPE,
        positions=config.count(("context_length",)),
    )


def _model_type(header: GgufHeader) -> str:
    refuse_split(header)
    refuse_short(header)
    for key, reason in _REASONS:
        if header.field(key):
            raise refuse(str(header.path), header.architecture, f"{reason} ({header.architecture}.{key})")
    model_type = MODEL_TYPES.get(header.architecture)
    if model_type is None:
        reason = f"the GGUF architecture {header.architecture!r} is not known"
        raise refuse(str(header.path), header.architecture, reason)
    return model_type


def _fields(header: GgufHeader) -> dict[str, object]:
    names = (
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "embedding_length",
        "feed_forward_length",
    )
    return {name: header.field(name) for name in (*names, "block_count", "context_length")}


def _head_dim(config: Config, heads: int) -> int:
    explicit = config.count(("attention.key_length",))
    if explicit:
        return explicit
    hidden = config.needed(("embedding_length",))
    if hidden % heads:
        raise ModelError(f"{config.where}: the hidden size {hidden} is no multiple of the {heads} attention heads")
    return hidden // heads


def _compare_with_tensors(header: GgufHeader, heads: int, kv_heads: int, head_dim: int) -> None:
    """Refuse a header whose figures contradict the shape of its first K projection."""
    if heads % kv_heads:
        raise ModelError(f"{header.path}: {kv_heads} KV heads do not divide {heads} attention heads")
    rows = next((tensor.shape[-1] for tensor in header.tensors if tensor.name == "blk.0.attn_k.weight"), None)
    if rows is not None and rows != kv_heads * head_dim:
        raise ModelError(
            f"{header.path}: {kv_heads} KV heads of {head_dim} contradict the {rows} rows of blk.0.attn_k.weight",
            "The header is damaged or of a kind that is not known here.",
        )


def _is_linear(tensor: GgufTensor) -> bool:
    return tensor.name.startswith("blk.") and len(tensor.shape) == 2 and "norm" not in tensor.name
