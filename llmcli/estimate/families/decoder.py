"""The decoder that most model types share: attention and an MLP or experts in every layer, in the style of the type.

A style says where a type differs. What it cannot say in a field, it says in a rule: a function of the config.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from llmcli.errors import ModelError
from llmcli.estimate import config as keys
from llmcli.estimate.config import Bias, Config, layer_number
from llmcli.estimate.counts import NOTHING, Count, embeddings, gated_mlp, linear, plain_mlp, tensor
from llmcli.estimate.facts import Attention, Blueprint, Layer
from llmcli.estimate.families.heads import head_dim_of, kv_heads_of
from llmcli.estimate.refusals import refuse
from llmcli.estimate.windows import Window, WindowRule, cache_rule


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model: counts, and widths in channels. kv_heads, head_dim: of layers that say nothing else."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    positions: int | None


@dataclass(frozen=True, slots=True)
class HeadShape:
    """The attention of one layer. caches: False where it reads the cache of an earlier layer.

    cached_heads: the KV heads that transformers caches, where it broadcasts them first. value_weights: False where
    values are made with the weights of the keys; they are cached all the same.
    """

    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    caches: bool = True
    cached_heads: int | None = None
    value_weights: bool = True


HeadsRule = Callable[[Config, Shape, int, Window | None], HeadShape]
LayerRule = Callable[[Config, Shape, int], Count]
ModelRule = Callable[[Config, Shape], Count]
WidthRule = Callable[[Config, Shape], int]


@dataclass(frozen=True, slots=True)
class Style:
    """How one model type is built. A bias is True, False, or the config's key that decides it.

    kv_heads: `key` (num_key_value_heads, absent: all), `all`, or `multi_query` (1 where the config's multi_query is
    true). norm: weights per channel in each norm (2 with a bias, 0 without weights); norms: per layer, `fewer_norms_if`
    names a flag that drops one. qk_norm: `head` one norm of head_dim for all heads, `heads` one per head;
    `qk_norm_if` names the flag that switches it on. mlp_size: `key` (intermediate_size), always `4x` hidden, or the
    name of a key whose absence means that. extra_positions: learned ones beyond the context limit. windows: which
    layers see a window only. heads: the attention of a layer, where layers differ. mlp: the MLP or experts of a layer,
    norms apart; None: the dense MLP that gated_mlp and mlp_bias describe. more: what else a layer has; around: what
    else stands around the layers; outside: all that stands around them, where it is not embedding, final norm and head.
    width: the channels of the MLP that one token passes through, where it is not intermediate_size.
    """

    kv_heads: Literal["key", "all", "multi_query"] = "key"
    explicit_head_dim: bool = True
    qkv_bias: Bias = False
    output_bias: Bias = False
    gated_mlp: bool = True
    mlp_bias: Bias = False
    mlp_size: str = "key"
    norm: int = 1
    norms: int = 2
    fewer_norms_if: str | None = None
    embedding_norm: bool = False
    qk_norm: Literal["head", "heads"] | None = None
    qk_norm_if: str | None = None
    qk_norm_weights: int = 1
    learned_positions: bool = False
    extra_positions: int = 0
    head_bias: Bias = False
    windows: WindowRule = cache_rule
    heads: HeadsRule | None = None
    mlp: LayerRule | None = None
    more: LayerRule | None = None
    around: ModelRule | None = None
    outside: ModelRule | None = None
    width: WidthRule | None = None


def build(config: Config, style: Style) -> Blueprint:
    """The decoder that `config` describes. Raises ModelError that names what is missing or wrong."""
    _check_plain(config, style)
    shape = shape_of(config, style)
    windows = style.windows(config, shape.layers)
    layers = tuple(_layer(config, style, shape, index, window) for index, window in enumerate(windows))
    first = _heads(config, style, shape, 0, windows[0])
    return Blueprint(
        layers=layers,
        outside=style.outside(config, shape) if style.outside else _outside(config, style, shape),
        hidden=shape.hidden,
        intermediate=style.width(config, shape) if style.width else shape.intermediate,
        vocabulary=shape.vocabulary,
        heads=first.heads,
        kv_heads=first.kv_heads,
        head_dim=first.key_dim,
    )


def _check_plain(config: Config, style: Style) -> None:
    """Raise ModelError for a config that says more than `style` can tell."""
    if style.heads is None and config.raw(("per_layer_config",))[1]:
        raise ModelError(
            f"{config.where}: per_layer_config: the layers differ from each other, as this model type's never do",
            "transformers cannot run it either: get the model's config again.",
        )
    if config.flag("add_cross_attention"):
        reason = "cross-attention to an encoder, whose length no config says"
        raise refuse(config.where, config.text(("model_type",)) or "it", reason)


def shape_of(config: Config, style: Style) -> Shape:
    """The sizes that `config` gives."""
    hidden, heads = config.needed(keys.HIDDEN), config.needed(keys.HEADS)
    return Shape(
        layers=layer_number(config),
        hidden=hidden,
        heads=heads,
        kv_heads=_kv_heads(config, style, heads),
        head_dim=head_dim_of(config, hidden, heads, explicit=style.explicit_head_dim),
        intermediate=_intermediate(config, style, hidden),
        vocabulary=config.needed(keys.VOCABULARY),
        positions=config.count(keys.POSITIONS),
    )


def dense_mlp(config: Config, style: Style, shape: Shape, width: int | None = None) -> Count:
    """The MLP of a dense layer; width: its channels, None: the shape's."""
    parts = gated_mlp if style.gated_mlp else plain_mlp
    return parts(shape.hidden, width or shape.intermediate, bias=config.switched(style.mlp_bias))


def sinks(_config: Config, shape: Shape, _index: int) -> Count:
    """One learned attention sink per head."""
    return tensor(shape.heads)


def _layer(config: Config, style: Style, shape: Shape, index: int, window: Window | None) -> Layer:
    heads = _heads(config, style, shape, index, window)
    count = _attention(config, style, shape, heads) + _norms(config, style, shape, heads)
    count += style.mlp(config, shape, index) if style.mlp else dense_mlp(config, style, shape)
    if style.more:
        count += style.more(config, shape, index)
    attention = Attention(
        kv_heads=heads.kv_heads,
        key_dim=heads.key_dim,
        value_dim=heads.value_dim,
        window=window.tokens if window else None,
        chunked=window.chunked if window else False,
        cached_heads=heads.cached_heads,
    )
    return Layer((attention,) if heads.caches else (), count)


def _heads(config: Config, style: Style, shape: Shape, index: int, window: Window | None) -> HeadShape:
    if style.heads:
        return style.heads(config, shape, index, window)
    return HeadShape(shape.heads, shape.kv_heads, shape.head_dim, shape.head_dim)


def _attention(config: Config, style: Style, shape: Shape, heads: HeadShape) -> Count:
    bias = config.switched(style.qkv_bias)
    queries = linear(shape.hidden, heads.heads * heads.key_dim, bias=bias)
    keys_ = linear(shape.hidden, heads.kv_heads * heads.key_dim, bias=bias)
    values = linear(shape.hidden, heads.kv_heads * heads.value_dim, bias=bias) if heads.value_weights else NOTHING
    output = linear(heads.heads * heads.value_dim, shape.hidden, bias=config.switched(style.output_bias))
    return queries + output + (keys_ + values if heads.caches else NOTHING)


def _norms(config: Config, style: Style, shape: Shape, heads: HeadShape) -> Count:
    norms = style.norms - (1 if style.fewer_norms_if and config.flag(style.fewer_norms_if) else 0)
    count = tensor(norms * style.norm * shape.hidden)
    if style.qk_norm and (style.qk_norm_if is None or config.flag(style.qk_norm_if)):
        of_keys = (1 if style.qk_norm == "head" else heads.kv_heads) if heads.caches else 0
        normed = (1 if style.qk_norm == "head" else heads.heads) + of_keys
        count += tensor(style.qk_norm_weights * normed * heads.key_dim)
    return count


def _outside(config: Config, style: Style, shape: Shape) -> Count:
    tables = embeddings(shape.vocabulary, shape.hidden, tied=config.flag("tie_word_embeddings"))
    total = style.norm * shape.hidden
    if style.learned_positions and shape.positions:
        total += (shape.positions + style.extra_positions) * shape.hidden
    if style.embedding_norm:
        total += style.norm * shape.hidden
    if config.switched(style.head_bias):
        total += shape.vocabulary
    return tables + tensor(total) + (style.around(config, shape) if style.around else NOTHING)


def _kv_heads(config: Config, style: Style, heads: int) -> int:
    """The number of KV heads: the key is ignored where the model's class ignores it."""
    if style.kv_heads == "all":
        return heads
    if style.kv_heads == "multi_query":
        return 1 if config.flag("multi_query") else heads
    return kv_heads_of(config, heads)


def _intermediate(config: Config, style: Style, hidden: int) -> int:
    """The width of the MLP; four times the hidden size for classes that leave it open."""
    if style.mlp_size == "4x":
        return 4 * hidden
    if style.mlp_size != "key":
        return config.count((style.mlp_size,)) or 4 * hidden
    return config.needed(keys.INTERMEDIATE)


def renamed(config: Config, names: Mapping[str, str]) -> Config:
    """The same config with values under the names that the class gives them (old name: new name); the old one wins."""
    said = {names[key]: value for key, value in config.values.items() if key in names and value is not None}
    return config.changed(said) if said else config
