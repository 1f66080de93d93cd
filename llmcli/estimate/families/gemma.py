"""Gemma 3n and Gemma 4: layers that read an earlier layer's cache, inputs per layer, heads that differ by layer.

Read from modeling_gemma3n.py, modeling_gemma4.py and modeling_gemma4_unified.py of transformers 5.24 and their
configurations; proved against them in the tests.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from llmcli.estimate import config as keys
from llmcli.estimate.config import Config, layer_number
from llmcli.estimate.counts import NOTHING, Count, gated_mlp, linear, routed_experts, tensor
from llmcli.estimate.facts import Blueprint
from llmcli.estimate.families.decoder import HeadShape, Shape, build
from llmcli.estimate.families.sliding import GEMMA3
from llmcli.estimate.windows import Window, Windows, every, narrowed

_SHARED = "num_kv_shared_layers"
_INPUTS = "hidden_size_per_layer_input"
_PER_LAYER = "per_layer_config"


def first_shared(config: Config, layers: int, windows: Windows, *, all_of_them: bool = False) -> int:
    """The first layer that reads the cache of an earlier one of its kind; `layers` where none does.

    all_of_them: whether every layer may, as in a drafter. Raises ModelError where an earlier layer is not there.
    """
    shared = config.count((_SHARED,), least=0) or 0
    first = layers - shared
    kinds = {window is None for window in windows}
    if not (shared == layers and all_of_them) and (first <= 0 or {one is None for one in windows[:first]} != kinds):
        raise config.wrong(_SHARED, shared, "too many: the layers before need one of each kind of attention")
    return first


def per_layer_inputs(config: Config, shape: Shape) -> Count:
    """The second embedding, of which every layer gets a part, with its projection and norm."""
    width = config.size(_INPUTS)
    if not width:
        return NOTHING
    rows = shape.layers * width
    return tensor(config.needed(("vocab_size_per_layer_input",)), rows) + linear(shape.hidden, rows) + tensor(width)


def layer_input(config: Config, shape: Shape) -> Count:
    """What one layer does with its part: gate, projection and norm."""
    width = config.size(_INPUTS)
    return linear(shape.hidden, width) + linear(width, shape.hidden) + tensor(shape.hidden) if width else NOTHING


def _gemma3n(config: Config) -> Blueprint:
    windows = every(None, 5)
    layers = layer_number(config)
    first = first_shared(config, layers, windows(config, layers))
    widths = _widths(config, layers)

    def heads(_config: Config, shape: Shape, index: int, _window: Window | None) -> HeadShape:
        return HeadShape(shape.heads, shape.kv_heads, shape.head_dim, shape.head_dim, caches=index < first)

    def mlp(_config: Config, shape: Shape, index: int) -> Count:
        return gated_mlp(shape.hidden, widths[index])

    style = replace(GEMMA3, windows=windows, heads=heads, mlp=mlp, more=_altup, around=_altup_outside)
    return build(config.changed({"intermediate_size": max(widths)}), style)


def _widths(config: Config, layers: int) -> tuple[int, ...]:
    """The width of each layer's MLP: one for all, or a list."""
    if isinstance(config.value(keys.INTERMEDIATE)[1], list | tuple):
        return config.counts("intermediate_size", layers) or ()
    return (config.needed(keys.INTERMEDIATE),) * layers


def _altup(config: Config, shape: Shape, _index: int) -> Count:
    """AltUp, the low-rank residual (LAuReL) and the layer's own input (Gemma3nTextDecoderLayer)."""
    streams, rank = config.needed(("altup_num_inputs",)), config.needed(("laurel_rank",))
    altup = linear(streams, streams) + linear(streams, streams**2) + linear(shape.hidden, streams)
    laurel = linear(shape.hidden, rank) + linear(rank, shape.hidden) + tensor(shape.hidden)
    return altup + tensor(2 * shape.hidden) + laurel + layer_input(config, shape)


def _altup_outside(config: Config, shape: Shape) -> Count:
    """Projections to and from the streams that AltUp keeps beside the first (Gemma3nTextModel)."""
    projections = linear(shape.hidden, shape.hidden) * (2 * (config.needed(("altup_num_inputs",)) - 1))
    return projections + per_layer_inputs(config, shape)


@dataclass(frozen=True, slots=True)
class _Gemma4:
    """What Gemma 4's rules share. overrides: heads of single layers, by index; first: the first with a shared cache."""

    overrides: Mapping[int, Config]
    first: int

    def heads(self, config: Config, shape: Shape, index: int, window: Window | None) -> HeadShape:
        """Gemma4TextAttention: global layers have heads of their own, and may make values with the keys' weights."""
        own = self.overrides.get(index)
        kv_heads = (own and own.count(keys.KV_HEADS)) or shape.kv_heads
        head_dim = (own and own.count(keys.HEAD_DIM)) or shape.head_dim
        return HeadShape(
            heads=shape.heads,
            kv_heads=kv_heads,
            key_dim=head_dim,
            value_dim=head_dim,
            caches=index < self.first,
            value_weights=not (window is None and config.flag("attention_k_eq_v")),
        )

    def mlp(self, config: Config, shape: Shape, index: int) -> Count:
        """The dense MLP, twice as wide with use_double_wide_mlp and a shared cache, and experts beside it."""
        wide = config.flag("use_double_wide_mlp") and index >= self.first
        dense = gated_mlp(shape.hidden, shape.intermediate * (2 if wide else 1))
        if not config.flag("enable_moe_block"):
            return dense
        number, width = config.needed(("num_experts",)), config.needed(("moe_intermediate_size",))
        router = linear(shape.hidden, number) + tensor(shape.hidden + number)
        experts = routed_experts(number, config.needed(("top_k_experts",)), gated_mlp(shape.hidden, width).total)
        return dense + router + experts + tensor(3 * shape.hidden)


def _gemma4(config: Config) -> Blueprint:
    layers = layer_number(config)
    windows = _gemma4_windows(config, layers)
    first = first_shared(config, layers, windows, all_of_them=True)
    rules = _Gemma4(_overrides(config, windows), first)
    style = replace(
        GEMMA3,
        windows=_gemma4_windows,
        heads=rules.heads,
        mlp=rules.mlp,
        more=lambda config, shape, _index: layer_input(config, shape),
        around=per_layer_inputs,
        width=_active_width,
    )
    return build(config, style)


def _gemma4_windows(config: Config, layers: int) -> Windows:
    """Five windows, then a layer that sees everything; the last layer always does (Gemma4TextConfig)."""
    rule = narrowed(every(None, 6), when=lambda config: config.text(("use_bidirectional_attention",)) == "all")
    return (*rule(config, layers)[:-1], None)


def _active_width(config: Config, shape: Shape) -> int:
    if not config.flag("enable_moe_block"):
        return shape.intermediate
    return shape.intermediate + config.needed(("moe_intermediate_size",)) * config.needed(("top_k_experts",))


def _overrides(config: Config, windows: Windows) -> Mapping[int, Config]:
    """The heads of single layers: per_layer_config, or those that global layers have without it."""
    if not config.absent((_PER_LAYER,)):
        return _listed_overrides(config, len(windows))
    heads: dict[str, Any] = {"head_dim": config.count(("global_head_dim",)) or 512}
    if config.flag("attention_k_eq_v") and (kv_heads := config.count(("num_global_key_value_heads",))):
        heads["num_key_value_heads"] = kv_heads
    own = Config(config.where, heads)
    return {index: own for index, window in enumerate(windows) if window is None}


def _listed_overrides(config: Config, layers: int) -> Mapping[int, Config]:
    """The entries of per_layer_config. Raises ModelError for a layer that is not there, or another key than heads."""
    section = config.section(_PER_LAYER)
    found: dict[int, Config] = {}
    for name in section.values if section else ():
        own = section.section(name) if section else None
        if not name.isdecimal() or len(name) > 9 or int(name) >= layers:
            raise config.wrong(_PER_LAYER, name, f"no layer from 0 to {layers - 1}")
        if own is None or set(own.values) - {"head_dim", "num_key_value_heads"}:
            raise config.wrong(f"{_PER_LAYER} {name}", dict(own.values) if own else None, "not all heads")
        found[int(name)] = own
    return found


BUILDERS: Mapping[str, Callable[[Config], Blueprint]] = {
    "gemma3n_text": _gemma3n,
    "gemma4_text": _gemma4,
    "gemma4_unified_text": _gemma4,
}
