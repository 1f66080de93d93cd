"""The model types that can be sized, and how their decoder layers are built.

Each row was read from the model's class in transformers 5.24 and is proved against it in the tests: the number of
parameters, the part of them that bitsandbytes quantizes, and the size of the KV cache.
A bias is True, False, or the config's key that decides it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

Bias = bool | str


@dataclass(frozen=True, slots=True)
class Family:
    """How one model type is built.

    kv_heads: `key` (num_key_value_heads, absent: all), `all`, or `multi_query` (1 where the config's multi_query is
    true). norm: weights per channel in each norm (2 with a bias, 0 without weights); norms: per layer, `fewer_norms_if`
    names a flag that drops one. qk_norm: `head` one norm of head_dim for all heads, `heads` one per head;
    `qk_norm_if` names the flag that switches it on. mlp_size: `key` (intermediate_size), `n_inner` (absent: 4 × hidden)
    or always `4x` hidden. window_if: the flag without which a sliding_window in the config is ignored.
    """

    kv_heads: Literal["key", "all", "multi_query"] = "key"
    explicit_head_dim: bool = True
    qkv_bias: Bias = False
    output_bias: Bias = False
    gated_mlp: bool = True
    mlp_bias: Bias = False
    mlp_size: Literal["key", "n_inner", "4x"] = "key"
    norm: int = 1
    norms: int = 2
    fewer_norms_if: str | None = None
    embedding_norm: bool = False
    qk_norm: Literal["head", "heads"] | None = None
    qk_norm_if: str | None = None
    qk_norm_weights: int = 1
    learned_positions: bool = False
    head_bias: bool = False
    window_if: str | None = None


_LLAMA = Family(qkv_bias="attention_bias", output_bias="attention_bias", mlp_bias="mlp_bias")
_PLAIN = replace(_LLAMA, mlp_bias=False)
_GPT2 = Family(
    kv_heads="all",
    explicit_head_dim=False,
    qkv_bias=True,
    output_bias=True,
    gated_mlp=False,
    mlp_bias=True,
    mlp_size="n_inner",
    norm=2,
    learned_positions=True,
)
_GPTJ = replace(_GPT2, qkv_bias=False, output_bias=False, norms=1, learned_positions=False, head_bias=True)

FAMILIES: Mapping[str, Family] = {
    "arcee": replace(_LLAMA, gated_mlp=False),
    "bloom": replace(_GPT2, learned_positions=False, embedding_norm=True, mlp_size="4x"),
    "codegen": _GPTJ,
    "cohere": replace(_PLAIN, norms=1, qk_norm="heads", qk_norm_if="use_qk_norm"),
    "ernie4_5": Family(qkv_bias="use_bias", output_bias="use_bias", mlp_bias="use_bias"),
    "gemma": _PLAIN,
    "glm": Family(qkv_bias="attention_bias"),
    "glm4": Family(qkv_bias="attention_bias", norms=4),
    "gpt2": _GPT2,
    "gpt_bigcode": replace(_GPT2, kv_heads="multi_query"),
    "gpt_neox": Family(
        kv_heads="all",
        explicit_head_dim=False,
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        gated_mlp=False,
        mlp_bias=True,
        norm=2,
    ),
    "gptj": _GPTJ,
    "granite": _LLAMA,
    "llama": _LLAMA,
    "mistral": Family(),
    "nemotron": replace(_LLAMA, gated_mlp=False, norm=2),
    "olmo": replace(_PLAIN, norm=0),
    "olmo2": replace(_PLAIN, qk_norm="heads"),
    "phi": Family(
        qkv_bias=True,
        output_bias=True,
        gated_mlp=False,
        mlp_bias=True,
        norm=2,
        norms=1,
        qk_norm="head",
        qk_norm_if="qk_layernorm",
        qk_norm_weights=2,
        head_bias=True,
    ),
    "phi3": Family(),
    "qwen2": Family(qkv_bias=True, window_if="use_sliding_window"),
    "qwen3": replace(_PLAIN, qk_norm="head", window_if="use_sliding_window"),
    "seed_oss": Family(qkv_bias="attention_bias", output_bias="attention_out_bias", mlp_bias="mlp_bias"),
    "smollm3": replace(_LLAMA, window_if="use_sliding_window"),
    "stablelm": Family(
        explicit_head_dim=False,
        qkv_bias="use_qkv_bias",
        norm=2,
        fewer_norms_if="use_parallel_residual",
        qk_norm="heads",
        qk_norm_if="qk_layernorm",
    ),
    "starcoder2": Family(qkv_bias="use_bias", output_bias="use_bias", gated_mlp=False, mlp_bias="use_bias", norm=2),
}
