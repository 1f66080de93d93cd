"""Decoders that run layers several times per token, and cache the keys and values of every turn.

Read from modeling_dory.py and modeling_hrm_text.py of transformers 5.24; proved against them in the tests.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from llmcli.estimate import config as keys
from llmcli.estimate.config import Config, layer_number
from llmcli.estimate.counts import Count, linear, tensor
from llmcli.estimate.facts import Attention, Blueprint, Layer
from llmcli.estimate.families.decoder import Shape, Style, build
from llmcli.estimate.windows import every

_TURNS = 2**20
_SECTIONS = ("n_input_layers", "n_recurrent_layers", "n_output_layers")


def _turned(layer: Layer, turns: int) -> Layer:
    """The layer with the keys and values of `turns` turns."""
    mixers = (
        replace(mixer, kv_heads=mixer.kv_heads * turns) if isinstance(mixer, Attention) else mixer
        for mixer in layer.mixers
    )
    return replace(layer, mixers=tuple(mixers))


def _dory(config: Config) -> Blueprint:
    config = _paired(config)
    blueprint = build(config, _DORY)
    layers = len(blueprint.layers)
    start, end = config.size("n_input_layers"), layers - config.size("n_output_layers")
    recurrent = config.count(("n_recurrent_layers",), least=0)
    if not 0 <= start <= end or (recurrent is not None and recurrent != end - start):
        said = [config.value((key,))[1] for key in _SECTIONS]
        raise config.wrong(" + ".join(_SECTIONS), said, f"not together the {layers} layers")
    turns = config.needed(("n_recurrent_loops",), limit=_TURNS)
    if config.text(("recurrent_kv_cache_mode",)) == "last_loop":
        turns = 1
    turned = tuple(
        _turned(layer, turns) if start <= index < end else layer for index, layer in enumerate(blueprint.layers)
    )
    return replace(blueprint, layers=turned)


def _paired(config: Config) -> Config:
    """The config of DoryConfig: files count attention and MLP as layers of their own where layer_types names both."""
    types = config.texts("layer_types")
    if types is None or "mlp" not in types:
        return config
    counted = (config.value(keys.LAYERS)[0], *_SECTIONS)
    halves = {key: config.size(key) // 2 for key in counted if config.value((key,))[1] is not None}
    return config.changed({"layer_types": list(types[::2]), **halves})


def _unit_sphere(_config: Config, shape: Shape, _index: int) -> Count:
    """The gate of the attention, and the scales of nGPT (DoryAttention, DoryMLP, DoryDecoderLayer)."""
    queries = shape.heads * shape.head_dim
    return linear(shape.hidden, queries) + tensor(2 * queries + 2 * shape.intermediate + 2 * shape.hidden)


def _logit_scale(_config: Config, shape: Shape) -> Count:
    return tensor(shape.vocabulary)


_DORY = Style(
    qkv_bias="attention_bias",
    output_bias="attention_bias",
    mlp_bias="mlp_bias",
    norm=0,
    windows=every(None, 4),
    more=_unit_sphere,
    around=_logit_scale,
)


def _hrm(config: Config) -> Blueprint:
    """Two stacks: the low one runs L_cycles times for each of the H_cycles turns of the high one (HrmTextModel)."""
    stack = config.count(("num_layers_per_stack",), limit=keys.MAX_LAYERS)
    stack = stack or layer_number(config)
    high, low = config.needed(("H_cycles",), limit=_TURNS), config.needed(("L_cycles",), limit=_TURNS)
    blueprint = build(config.changed({"num_hidden_layers": 2 * stack}), _HRM)
    turned = tuple(
        _turned(layer, high * low if index < stack else high) for index, layer in enumerate(blueprint.layers)
    )
    return replace(blueprint, layers=turned)


def _output_gate(config: Config, shape: Shape, _index: int) -> Count:
    """The gate of the attention (HrmTextAttention)."""
    return linear(shape.hidden, shape.heads * shape.head_dim, bias=config.flag("attention_bias"))


def _low_start(_config: Config, shape: Shape) -> Count:
    """The state that the low stack starts from."""
    return tensor(shape.hidden)


_HRM = Style(
    kv_heads="all",
    qkv_bias="attention_bias",
    output_bias="attention_bias",
    mlp_bias="mlp_bias",
    norm=0,
    more=_output_gate,
    around=_low_start,
)

BUILDERS: Mapping[str, Callable[[Config], Blueprint]] = {"dory": _dory, "hrm_text": _hrm}
