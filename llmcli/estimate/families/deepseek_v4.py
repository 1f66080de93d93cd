"""DeepSeek-V4: a window of keys in every layer, and compressed rows of all that came before.

Read in transformers 5.24: DeepseekV4Config, DeepseekV4Attention and its compressors for the parameters,
DeepseekV4HCACache and DeepseekV4CSACache for what a layer keeps. Keys are values at the same time, one tensor in layers
with a compressor; plain sliding layers keep both. A compressor projects every token to a value and a weight, and keeps
them until it has as many as make a row.
"""

from dataclasses import dataclass

from llmcli.errors import ModelError
from llmcli.estimate import config as keys
from llmcli.estimate.config import Config, layer_number, shown
from llmcli.estimate.counts import Count, linear, tensor
from llmcli.estimate.experts import Mixture
from llmcli.estimate.facts import Attention, Blueprint, Compressed, Layer, Mixer
from llmcli.estimate.families.latent_attention import QUERY_RANK, Indexer, indexer_of
from llmcli.estimate.families.self_attention import SelfAttention
from llmcli.estimate.families.stack import stack
from llmcli.estimate.layers import SLIDING_ATTENTION

SPARSE = "compressed_sparse_attention"
HEAVY = "heavily_compressed_attention"

_OF_RATIO = {0: SLIDING_ATTENTION, 4: SPARSE, 128: HEAVY}
_RATES = {SPARSE: ("compress_rate_csa", 4), HEAVY: ("compress_rate_hca", 128)}
_MIXTURE = Mixture(shared_width="moe_intermediate_size", shared_bias="mlp_bias")


@dataclass(frozen=True, slots=True)
class _Shape:
    """The attention of every layer, in channels; window: in tokens; rates: tokens per compressed row, by layer type."""

    hidden: int
    heads: int
    head_dim: int
    query_rank: int
    groups: int
    output_rank: int
    window: int
    rates: dict[str, int]
    indexer: Indexer


def build(config: Config) -> Blueprint:
    """The decoder that `config` describes. Raises ModelError that names what is missing or wrong."""
    number = layer_number(config)
    shape, types = _shape(config), _types(config, number)
    experts = _MIXTURE.experts(config)
    streams = config.needed(("hc_mult",))
    same = experts.count(shape.hidden) + tensor(2, shape.hidden) + _attention(shape) + _connection(streams, shape) * 2
    of_type = {kind: Layer(_mixers(shape, kind), same + _compressor(shape, kind)) for kind in set(types)}
    joined = tensor(streams * (streams * shape.hidden + 1) + 1)
    heads = SelfAttention(shape.heads, 1, shape.head_dim)
    return stack(config, (of_type[kind] for kind in types), experts.token_width, heads, around=joined)


def _shape(config: Config) -> _Shape:
    return _Shape(
        hidden=config.needed(keys.HIDDEN),
        heads=config.needed(keys.HEADS),
        head_dim=config.needed(keys.HEAD_DIM),
        query_rank=config.needed(QUERY_RANK),
        groups=config.needed(("o_groups",)),
        output_rank=config.needed(("o_lora_rank",)),
        window=config.needed(("sliding_window",)),
        rates=_rates(config),
        indexer=indexer_of(config),
    )


def _rates(config: Config) -> dict[str, int]:
    """Tokens per compressed row: keys of their own, else compress_rates, else those of the class."""
    section = config.section("compress_rates") or Config(config.where, {})
    return {kind: config.count((key,)) or section.count((kind,)) or rate for kind, (key, rate) in _RATES.items()}


def _types(config: Config, layers: int) -> tuple[str, ...]:
    """The type of every layer: layer_types, else compress_ratios, else two heavy ones and then both in turn."""
    types = config.texts("layer_types") or _of_ratios(config)
    if types is None:
        return tuple(SPARSE if index >= 2 and index % 2 else HEAVY for index in range(layers))
    for name in types:
        if name not in _OF_RATIO.values():
            raise ModelError(
                f"{config.where}: layer_types has {shown(name)}, which is no kind of attention that deepseek_v4 has",
                f"Known here: {', '.join(_OF_RATIO.values())}.",
            )
    if len(types) < layers:
        raise ModelError(
            f"{config.where}: {len(types)} layer types for {layers} layers", "Every layer needs one: check the file."
        )
    return types[:layers]


def _of_ratios(config: Config) -> tuple[str, ...] | None:
    ratios = config.counts("compress_ratios")
    for ratio in ratios or ():
        if ratio not in _OF_RATIO:
            raise config.wrong("compress_ratios", list(ratios or ()), "no list of 0, 4 and 128")
    return None if ratios is None else tuple(_OF_RATIO[ratio] for ratio in ratios)


def _mixers(shape: _Shape, kind: str) -> tuple[Mixer, ...]:
    if kind == SLIDING_ATTENTION:
        return (Attention(1, shape.head_dim, shape.head_dim, window=shape.window),)
    window = Attention(1, shape.head_dim, 0, window=shape.window, kind=kind)
    rate = shape.rates[kind]
    if kind == HEAVY:
        return (window, Compressed(rate, shape.head_dim, 2 * shape.head_dim, kind=kind))
    # two series side by side, of which the next row reads the first once more; and the same again for the indexer
    dims = shape.head_dim + shape.indexer.head_dim
    return (window, Compressed(rate, dims, 4 * dims, overlap=rate * dims, kind=kind))


def _attention(shape: _Shape) -> Count:
    """Queries, the one head of keys and values, the output and the sinks.

    The output's first projection works on groups of heads: a linear layer of its own kind, left as it is.
    """
    width = shape.heads * shape.head_dim
    queries = linear(shape.hidden, shape.query_rank) + tensor(shape.query_rank) + linear(shape.query_rank, width)
    keys_ = linear(shape.hidden, shape.head_dim) + tensor(shape.head_dim)
    inner = shape.groups * shape.output_rank
    output = tensor(width // shape.groups, inner) + linear(inner, shape.hidden)
    return queries + keys_ + output + tensor(shape.heads)


def _compressor(shape: _Shape, kind: str) -> Count:
    if kind == SLIDING_ATTENTION:
        return Count()
    if kind == HEAVY:
        return _compression(shape.hidden, shape.head_dim, shape.head_dim, shape.rates[kind])
    rate, indexer = shape.rates[kind], shape.indexer
    rows = _compression(shape.hidden, shape.head_dim, 2 * shape.head_dim, rate)
    index_rows = _compression(shape.hidden, indexer.head_dim, 2 * indexer.head_dim, rate)
    queries = linear(shape.query_rank, indexer.heads * indexer.head_dim)
    return rows + index_rows + queries + linear(shape.hidden, indexer.heads)


def _compression(hidden: int, row: int, width: int, rate: int) -> Count:
    """Values and weights of `width` channels, a bias per position in the row, and the row's norm."""
    return linear(hidden, width) * 2 + tensor(rate, width) + tensor(row)


def _connection(streams: int, shape: _Shape) -> Count:
    """A hyper-connection of `streams` streams: weights that collapse, expand and mix them."""
    weights = (2 + streams) * streams
    return tensor(weights * (streams * shape.hidden + 1) + 3)
