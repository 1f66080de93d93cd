"""OpenELM: every layer has its own number of heads and its own width.

Read from Apple's published configs and the code beside them: `num_query_heads`, `num_kv_heads` and `ffn_multipliers`
have one entry per layer; widths are rounded to a multiple of `ffn_dim_divisor`.
"""

from typing import Any

from llmcli.errors import ModelError
from llmcli.estimate.config import MAX_LAYERS, VOCABULARY, Config
from llmcli.estimate.counts import embeddings, gated_mlp, linear, plain_mlp, tensor
from llmcli.estimate.facts import Attention, Blueprint, Layer

_MOST_TIMES = 1024


def build_openelm(config: Config) -> Blueprint:
    """The decoder that `config` describes. Raises ModelError that names what is missing or wrong."""
    number = config.needed(("num_transformer_layers",), limit=MAX_LAYERS)
    hidden, head_dim = config.needed(("model_dim",)), config.needed(("head_dim",))
    queries, kv_heads = _counts(config, "num_query_heads", number), _counts(config, "num_kv_heads", number)
    widths = tuple(_width(config, hidden, times) for times in _multipliers(config, number))
    heads = zip(queries, kv_heads, strict=True)
    vocabulary = config.needed(VOCABULARY)
    tied = config.values.get("share_input_output_layers") is not False
    return Blueprint(
        layers=tuple(
            _layer(config, hidden, Attention(own, head_dim, head_dim), of * head_dim, width)
            for (of, own), width in zip(heads, widths, strict=True)
        ),
        outside=embeddings(vocabulary, hidden, tied=tied) + tensor(hidden),
        hidden=hidden,
        intermediate=max(widths),
        vocabulary=vocabulary,
        heads=queries[0],
        kv_heads=kv_heads[0],
        head_dim=head_dim,
    )


def _counts(config: Config, key: str, number: int) -> tuple[int, ...]:
    counts = config.counts(key, number)
    if not counts or not all(counts):
        raise ModelError(f"{config.where}: {key} has no number above 0 for every layer", "Check the file.")
    return counts


def _multipliers(config: Config, number: int) -> tuple[float, ...]:
    value = config.values.get("ffn_multipliers")
    entries: list[Any] = list(value) if isinstance(value, list | tuple) else [value] * number
    if len(entries) != number or not all(_is_factor(one) for one in entries):
        raise config.wrong("ffn_multipliers", value, f"no list of {number} numbers above 0 and up to {_MOST_TIMES}")
    return tuple(entries)


def _is_factor(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _MOST_TIMES


def _width(config: Config, hidden: int, times: float) -> int:
    """`times` the hidden size, to the nearest multiple that is not more than a tenth below it."""
    multiple = config.count(("ffn_dim_divisor",)) or 256
    wanted = times * hidden
    width = max(multiple, int(wanted + multiple / 2) // multiple * multiple)
    return width + multiple if width < 0.9 * wanted else width


def _layer(config: Config, hidden: int, attention: Attention, queries: int, width: int) -> Layer:
    gated = config.values.get("ffn_with_glu") is not False
    keys = attention.kv_heads * attention.key_dim
    norms = 2 * hidden + (2 * attention.key_dim if config.flag("normalize_qk_projections") else 0)
    count = linear(hidden, queries + 2 * keys) + linear(queries, hidden) + tensor(norms)
    parts = gated_mlp if gated else plain_mlp
    return Layer((attention,), count + parts(hidden, width))
