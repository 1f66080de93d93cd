"""Dense decoders: attention and one MLP in every layer.

Each row was read from the model's class in transformers 5.24 and is proved against it in the tests: the number of
parameters, the part of them that bitsandbytes quantizes, and the size of the KV cache.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from llmcli.estimate.config import Config
from llmcli.estimate.counts import NOTHING, Count, embeddings, tensor
from llmcli.estimate.facts import Blueprint
from llmcli.estimate.families.decoder import Shape, Style, build, renamed
from llmcli.estimate.windows import from_flag

_LLAMA = Style(qkv_bias="attention_bias", output_bias="attention_bias", mlp_bias="mlp_bias")
_PLAIN = replace(_LLAMA, mlp_bias=False)


def _bitnet_norms(_config: Config, shape: Shape, _index: int) -> Count:
    """Norms in front of the output and the down projection (BitNetAttention, BitNetMLP)."""
    return tensor(shape.hidden + shape.intermediate)


def _xielu(config: Config, _shape: Shape, _index: int) -> Count:
    """The two learned slopes of the activation (ApertusMLP)."""
    return tensor(2) if (config.text(("hidden_act",)) or "xielu") == "xielu" else NOTHING


def _differential(_config: Config, shape: Shape, _index: int) -> Count:
    """The four vectors that weigh the two halves of the attention (DiffLlamaAttention)."""
    return tensor(4 * shape.head_dim)


def _post_norms(config: Config, shape: Shape, _index: int) -> Count:
    """Norms behind attention and MLP (HyperCLOVAXDecoderLayer)."""
    return tensor(2 * shape.hidden) if config.flag("use_post_norm") else NOTHING


def _own_head(config: Config, shape: Shape) -> Count:
    """A head that may be narrower than the embedding, with the final norm (Apertus1p5TextForCausalLM)."""
    head, tied = config.count(("output_vocab_size",)), config.flag("tie_word_embeddings")
    return embeddings(shape.vocabulary, shape.hidden, tied=tied, outputs=head) + tensor(shape.hidden)


def _internlm3(config: Config) -> Blueprint:
    return build(renamed(config, {"qkv_bias": "attention_bias", "bias": "mlp_bias"}), _LLAMA)


_APERTUS = replace(_PLAIN, gated_mlp=False, qk_norm="head", more=_xielu)

STYLES: Mapping[str, Style] = {
    "apertus": _APERTUS,
    "apertus1p5_text": replace(_APERTUS, outside=_own_head),
    "arcee": replace(_LLAMA, gated_mlp=False),
    "bitnet": replace(_PLAIN, more=_bitnet_norms),
    "cohere": replace(_PLAIN, norms=1, qk_norm="heads", qk_norm_if="use_qk_norm"),
    "diffllama": replace(_PLAIN, more=_differential),
    "ernie4_5": Style(qkv_bias="use_bias", output_bias="use_bias", mlp_bias="use_bias"),
    "gemma": _PLAIN,
    "glm": Style(qkv_bias="attention_bias"),
    "glm4": Style(qkv_bias="attention_bias", norms=4),
    "granite": _LLAMA,
    "helium": Style(qkv_bias="attention_bias", mlp_bias="mlp_bias"),
    "hunyuan_v1_dense": replace(_PLAIN, qk_norm="head"),
    "hyperclovax": replace(_LLAMA, more=_post_norms),
    "iquestcoder": _LLAMA,
    "jais2": replace(_LLAMA, gated_mlp=False, norm=2),
    "llama": _LLAMA,
    "ministral": Style(),
    "ministral3": Style(),
    "mistral": Style(),
    "nanochat": replace(_PLAIN, gated_mlp=False, norm=0),
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

BUILDERS: Mapping[str, Callable[[Config], Blueprint]] = {
    **{model_type: partial(build, style=style) for model_type, style in STYLES.items()},
    "internlm3": _internlm3,
}
