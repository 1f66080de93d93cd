"""Dense decoders in the line of GPT: multi-head attention, layer norms and most of the time biases, a plain MLP.

Each row was read from the model's class in transformers 5.24 and is proved against it in the tests: the number of
parameters, the part of them that bitsandbytes quantizes, and the size of the KV cache.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from llmcli.estimate.config import Config
from llmcli.estimate.counts import NOTHING, Count, embeddings, linear, plain_mlp, tensor
from llmcli.estimate.facts import Blueprint
from llmcli.estimate.families.decoder import HeadShape, Shape, Style, build, renamed
from llmcli.estimate.windows import Window

_MULTIPLE = "intermediate_multiple_size"
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
_NEOX = replace(_GPT2, qkv_bias="attention_bias", output_bias="attention_bias", mlp_size="key", learned_positions=False)


def _falcon_heads(config: Config, shape: Shape, _index: int, _window: Window | None) -> HeadShape:
    """One KV head, or one per group of heads: transformers then caches a copy of it for each head (FalconAttention)."""
    if config.flag("new_decoder_architecture"):
        return HeadShape(shape.heads, shape.kv_heads, shape.head_dim, shape.head_dim, cached_heads=shape.heads)
    kv_heads = 1 if config.flag("multi_query") else shape.heads
    return HeadShape(shape.heads, kv_heads, shape.head_dim, shape.head_dim)


def _falcon_norms(config: Config, shape: Shape, _index: int) -> Count:
    """The second norm of a layer, where it has one (FalconDecoderLayer)."""
    if not config.flag("parallel_attn"):
        return tensor(2 * shape.hidden)
    norms = config.count(("num_ln_in_parallel_attn",)) or (2 if config.flag("new_decoder_architecture") else 1)
    return tensor(2 * shape.hidden) if norms == 2 else NOTHING


def _japanese_width(config: Config, shape: Shape) -> int:
    return shape.hidden * config.needed((_MULTIPLE,))


def _japanese_mlp(config: Config, shape: Shape, _index: int) -> Count:
    return plain_mlp(shape.hidden, _japanese_width(config, shape))


def _last_bias(_config: Config, shape: Shape, index: int) -> Count:
    """The bias of the attention's output, which only the last layer has (GPTNeoXJapaneseLayer)."""
    return tensor(shape.hidden) if index == shape.layers - 1 else NOTHING


def _opt_outside(config: Config, shape: Shape) -> Count:
    """Embedding and head of their own width, with projections, and two more positions than the limit (OPTDecoder)."""
    width = config.count(("word_embed_proj_dim",)) or shape.hidden
    count = embeddings(shape.vocabulary, width, tied=config.flag("tie_word_embeddings"))
    count += tensor((shape.positions or 0) + 2, shape.hidden)
    if width != shape.hidden:
        count += linear(width, shape.hidden) + linear(shape.hidden, width)
    if config.flag("do_layer_norm_before") and not config.flag("_remove_final_layer_norm"):
        count += tensor(_opt_norm(config) * shape.hidden)
    return count


def _opt_norm(config: Config) -> int:
    return 2 if config.flag("layer_norm_elementwise_affine") else 0


def _opt(config: Config, style: Style) -> Blueprint:
    return build(config, replace(style, norm=_opt_norm(config)))


def _openai_outside(config: Config, shape: Shape) -> Count:
    """No norm behind the last layer (OpenAIGPTModel)."""
    tables = embeddings(shape.vocabulary, shape.hidden, tied=config.flag("tie_word_embeddings"))
    return tables + tensor(shape.positions or 0, shape.hidden)


def _transposed(config: Config, style: Style) -> Blueprint:
    """Linear layers of a class of their own (Conv1D), which bitsandbytes knows and int4 does not."""
    blueprint = build(config, style)
    layers = (replace(layer, count=replace(layer.count, even=0)) for layer in blueprint.layers)
    return replace(blueprint, layers=tuple(layers))


def _without_cache(config: Config, style: Style) -> Blueprint:
    blueprint = _transposed(config, style)
    return replace(
        blueprint,
        layers=tuple(replace(layer, mixers=()) for layer in blueprint.layers),
        notes=("this model has no KV cache: every step computes the whole sequence again",),
    )


def _falcon(config: Config, style: Style) -> Blueprint:
    """Bitsandbytes replaces torch's linear layers, and Falcon has a class of its own (FalconLinear)."""
    blueprint = build(renamed(config, {"n_embed": "hidden_size"}), style)
    layers = (replace(layer, count=replace(layer.count, linear=0, rows=0, even=0)) for layer in blueprint.layers)
    return replace(blueprint, layers=tuple(layers))


STYLES: Mapping[str, Style] = {
    "biogpt": replace(_GPT2, mlp_size="key", extra_positions=2),
    "bloom": replace(_GPT2, learned_positions=False, embedding_norm=True, mlp_size="4x"),
    "codegen": _GPTJ,
    "ctrl": replace(_GPT2, mlp_size="dff", learned_positions=False, head_bias=True),
    "falcon": replace(
        _GPT2,
        kv_heads="key",
        qkv_bias="bias",
        output_bias="bias",
        mlp_bias="bias",
        mlp_size="ffn_hidden_size",
        norms=1,
        learned_positions=False,
        heads=_falcon_heads,
        more=_falcon_norms,
    ),
    "gpt-sw3": _GPT2,
    "gpt2": _GPT2,
    "gpt_bigcode": replace(_GPT2, kv_heads="multi_query"),
    # its local layers hide what lies before their window, and keep it in the cache all the same
    "gpt_neo": replace(_GPT2, qkv_bias=False, mlp_size="intermediate_size"),
    "gpt_neox": _NEOX,
    "gpt_neox_japanese": replace(
        _NEOX,
        qkv_bias=False,
        output_bias=False,
        mlp_size="4x",
        mlp=_japanese_mlp,
        width=_japanese_width,
        more=_last_bias,
    ),
    "gptj": _GPTJ,
    "mpt": replace(
        _GPT2, qkv_bias=False, output_bias=False, mlp_bias=False, mlp_size="4x", norm=1, learned_positions=False
    ),
    "openai-gpt": replace(_GPT2, mlp_size="4x", outside=_openai_outside),
    "opt": replace(
        _GPT2,
        qkv_bias="enable_bias",
        output_bias="enable_bias",
        mlp_bias="enable_bias",
        mlp_size="key",
        outside=_opt_outside,
    ),
    "persimmon": replace(
        _NEOX, qkv_bias=True, output_bias=True, qk_norm="head", qk_norm_if="qk_layernorm", qk_norm_weights=2
    ),
    "xglm": replace(_GPT2, mlp_size="key", learned_positions=False),
}
_OWN = {"falcon": _falcon, "gpt-sw3": _transposed, "gpt2": _transposed, "openai-gpt": _without_cache, "opt": _opt}

BUILDERS = {model_type: partial(_OWN.get(model_type, build), style=style) for model_type, style in STYLES.items()}
