"""Nemotron models found by architecture search: every layer says for itself what attention and MLP it has.

Read from the configs that NVIDIA publishes and the code beside them: `block_configs[i].attention` has `no_op`,
`replace_with_linear` or `n_heads_in_group`; `block_configs[i].ffn` has `no_op`, `replace_with_linear` or `ffn_mult`.
"""

from collections.abc import Mapping
from typing import Any

from llmcli.errors import ModelError
from llmcli.estimate import config as keys
from llmcli.estimate.config import Config
from llmcli.estimate.counts import NOTHING, Count, gated_mlp, linear, tensor
from llmcli.estimate.facts import Attention, Blueprint, Layer
from llmcli.estimate.families.heads import head_dim_of
from llmcli.estimate.families.self_attention import SelfAttention
from llmcli.estimate.families.stack import stack

_KEY = "block_configs"
_MULTIPLE = 256
_MOST_TIMES = 1024


def build_block_configs(config: Config) -> Blueprint:
    """The decoder that `block_configs` describes. Raises ModelError that names the block and the key at fault."""
    hidden, heads = config.needed(keys.HIDDEN), config.needed(keys.HEADS)
    head_dim = head_dim_of(config, hidden, heads)
    blocks = _blocks(config)
    layers = tuple(_layer(block, hidden, heads, head_dim) for block in blocks)
    attentions = [mixer for layer in layers for mixer in layer.mixers if isinstance(mixer, Attention)]
    first = SelfAttention(heads, attentions[0].kv_heads, head_dim) if attentions else None
    return stack(config, layers, max(_width(block, hidden) for block in blocks), first)


def _blocks(config: Config) -> tuple[Config, ...]:
    value = config.values.get(_KEY)
    if not isinstance(value, list) or not 0 < len(value) <= keys.MAX_LAYERS:
        raise ModelError(f"{config.where}: {_KEY} is no list of 1 to {keys.MAX_LAYERS} layers", "Check the file.")
    said = config.count(keys.LAYERS)
    if said is not None and said != len(value):
        raise ModelError(f"{config.where}: {_KEY} has {len(value)} entries where the model has {said} layers", None)
    return tuple(_block(config, index, block) for index, block in enumerate(value))


def _block(config: Config, index: int, block: object) -> Config:
    if not isinstance(block, Mapping):
        raise config.wrong(f"{_KEY}[{index}]", block, "no object")
    values: Mapping[str, Any] = block
    return Config(f"{config.where}: {_KEY}[{index}]", values)


def _layer(block: Config, hidden: int, heads: int, head_dim: int) -> Layer:
    mixers, attention = _attention(block, hidden, heads, head_dim)
    return Layer(mixers, attention + _mlp(block, hidden))


def _attention(block: Config, hidden: int, heads: int, head_dim: int) -> tuple[tuple[Attention, ...], Count]:
    part = block.section("attention") or Config(f"{block.where}: attention", {})
    if part.flag("no_op"):
        return (), NOTHING
    if part.flag("replace_with_linear"):
        return (), linear(hidden, hidden) + tensor(hidden)
    group = part.needed(("n_heads_in_group",), limit=heads)
    kv_heads = heads // group
    count = linear(hidden, heads * head_dim) + linear(hidden, kv_heads * head_dim) * 2
    return (Attention(kv_heads, head_dim, head_dim),), count + linear(heads * head_dim, hidden) + tensor(hidden)


def _mlp(block: Config, hidden: int) -> Count:
    part = _ffn(block)
    if part.flag("no_op"):
        return NOTHING
    if part.flag("replace_with_linear"):
        return linear(hidden, hidden) + tensor(hidden)
    return gated_mlp(hidden, _width(block, hidden)) + tensor(hidden)


def _ffn(block: Config) -> Config:
    return block.section("ffn") or Config(f"{block.where}: ffn", {})


def _width(block: Config, hidden: int) -> int:
    """Two thirds of ffn_mult times the hidden size, rounded up to a multiple of 256."""
    part = _ffn(block)
    if part.flag("no_op") or part.flag("replace_with_linear"):
        return 0
    times = part.number(("ffn_mult",))
    if times is None:
        raise ModelError(f"{part.where}: ffn_mult is missing", "The config must say it: it cannot be guessed.")
    width = int(2 * min(times, _MOST_TIMES) * hidden / 3)
    return -(-width // _MULTIPLE) * _MULTIPLE
