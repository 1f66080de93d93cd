"""Dense decoders: attention and one MLP in every layer.

Each row was read from the model's class in transformers 5.24 and is proved against it in the tests: the number of
parameters, the part of them that bitsandbytes quantizes, and the size of the KV cache.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from llmcli.estimate.families.decoder import Style, build
from llmcli.estimate.windows import from_flag

_LLAMA = Style(qkv_bias="attention_bias", output_bias="attention_bias", mlp_bias="mlp_bias")
_PLAIN = replace(_LLAMA, mlp_bias=False)
_GPT2 = Style(
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

STYLES: Mapping[str, Style] = {
    "arcee": replace(_LLAMA, gated_mlp=False),
    "bloom": replace(_GPT2, learned_positions=False, embedding_norm=True, mlp_size="4x"),
    "codegen": _GPTJ,
    "cohere": replace(_PLAIN, norms=1, qk_norm="heads", qk_norm_if="use_qk_norm"),
    "ernie4_5": Style(qkv_bias="use_bias", output_bias="use_bias", mlp_bias="use_bias"),
    "gemma": _PLAIN,
    "glm": Style(qkv_bias="attention_bias"),
    "glm4": Style(qkv_bias="attention_bias", norms=4),
    "gpt2": _GPT2,
    "gpt_bigcode": replace(_GPT2, kv_heads="multi_query"),
    "gpt_neox": Style(
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
    "mistral": Style(),
    "nemotron": replace(_LLAMA, gated_mlp=False, norm=2),
    "olmo": replace(_PLAIN, norm=0),
    "olmo2": replace(_PLAIN, qk_norm="heads"),
    "phi": Style(
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
    "phi3": Style(),
    "qwen2": Style(qkv_bias=True, windows=from_flag),
    "qwen3": replace(_PLAIN, qk_norm="head", windows=from_flag),
    "seed_oss": Style(qkv_bias="attention_bias", output_bias="attention_out_bias", mlp_bias="mlp_bias"),
    "smollm3": replace(_LLAMA, windows=from_flag),
    "stablelm": Style(
        explicit_head_dim=False,
        qkv_bias="use_qkv_bias",
        norm=2,
        fewer_norms_if="use_parallel_residual",
        qk_norm="heads",
        qk_norm_if="qk_layernorm",
    ),
    "starcoder2": Style(qkv_bias="use_bias", output_bias="use_bias", gated_mlp=False, mlp_bias="use_bias", norm=2),
}

BUILDERS = {model_type: partial(build, style=style) for model_type, style in STYLES.items()}
