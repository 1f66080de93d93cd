"""From a config.json to the facts that sizes follow from."""

from dataclasses import replace

from llmcli.errors import ModelError
from llmcli.estimate import config as keys
from llmcli.estimate.architecture import Architecture
from llmcli.estimate.class_defaults import CLASS_DEFAULTS
from llmcli.estimate.config import Config, shown
from llmcli.estimate.families import FAMILIES, Family
from llmcli.estimate.layers import FULL_ATTENTION, SLIDING_ATTENTION, LayerGroup, Layers, LayerSpec
from llmcli.estimate.parameters import Shape, count_parameters
from llmcli.estimate.refusals import check, refuse


def from_config(config: Config) -> Architecture:
    """The facts in a model's config. Raises ModelError that names what is missing, wrong, or cannot be sized yet."""
    model_type = check(config)
    config = replace(config, defaults=CLASS_DEFAULTS[model_type])
    family = FAMILIES[model_type]
    shape = _shape(config, family)
    layers = _layers(config, family, shape, model_type)
    params = count_parameters(shape, family, config)
    return Architecture(
        model_type=model_type,
        layers=layers,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        params=params.total,
        linear_params=params.linear,
        linear_rows=params.linear_rows,
        dtype=config.text(keys.DTYPE),
        positions=shape.positions,
        quantization=_quantization(config),
        warnings=_assumed_sizes(config, model_type),
    )


def _shape(config: Config, family: Family) -> Shape:
    hidden, heads = config.needed(keys.HIDDEN), config.needed(keys.HEADS)
    return Shape(
        layers=config.needed(keys.LAYERS, limit=keys.MAX_LAYERS),
        hidden=hidden,
        heads=heads,
        kv_heads=_kv_heads(config, family, heads),
        head_dim=_head_dim(config, family, hidden, heads),
        intermediate=_intermediate(config, family, hidden),
        vocabulary=config.needed(keys.VOCABULARY),
        positions=config.count(keys.POSITIONS),
    )


def _kv_heads(config: Config, family: Family, heads: int) -> int:
    """The number of KV heads: the key is ignored where the model's class ignores it."""
    if family.kv_heads == "all":
        return heads
    if family.kv_heads == "multi_query":
        return 1 if config.flag("multi_query") else heads
    kv_heads = config.count(keys.KV_HEADS) or heads
    if heads % kv_heads:
        key = config.raw(keys.KV_HEADS)[0]
        raise ModelError(
            f"{config.where}: {key} = {kv_heads} does not divide the {heads} attention heads",
            "Every KV head serves the same number of attention heads: check the file.",
        )
    return kv_heads


def _head_dim(config: Config, family: Family, hidden: int, heads: int) -> int:
    """The explicit head_dim where the model's class reads it, else hidden ÷ heads."""
    explicit = config.count(keys.HEAD_DIM) if family.explicit_head_dim else None
    if explicit:
        return explicit
    if hidden % heads:
        raise ModelError(
            f"{config.where}: the hidden size {hidden} is no multiple of the {heads} attention heads",
            "Check the file: it gives no head_dim either.",
        )
    return hidden // heads


def _intermediate(config: Config, family: Family, hidden: int) -> int:
    """The width of the MLP; four times the hidden size for classes that leave it open."""
    if family.mlp_size == "4x":
        return 4 * hidden
    if family.mlp_size == "n_inner":
        return config.count(("n_inner",)) or 4 * hidden
    return config.needed(keys.INTERMEDIATE)


def _layers(config: Config, family: Family, shape: Shape, model_type: str) -> Layers:
    """Full attention in every layer, or a window that the model's own context limit never reaches."""
    elements = shape.kv_heads * shape.head_dim
    full = (LayerGroup(LayerSpec(FULL_ATTENTION, elements, elements), shape.layers),)
    types = _layer_types(config, shape.layers)
    strange = sorted(types - {FULL_ATTENTION})
    if strange:
        raise refuse(config.where, model_type, f"layers of the type {', '.join(map(shown, strange))} (layer_types)")
    window = None if types else _window(config, family, shape.layers)
    if window is None:
        return full
    if family.window_if or shape.positions is None or window - 1 < shape.positions:
        raise refuse(config.where, model_type, f"sliding-window attention (sliding_window = {window})")
    # transformers' sliding layer keeps window - 1 tokens: the new one makes it whole.
    return (LayerGroup(LayerSpec(SLIDING_ATTENTION, elements, elements, max_tokens=window - 1), shape.layers),)


def _layer_types(config: Config, layers: int) -> set[str]:
    types = config.values.get("layer_types")
    if types is None:
        return set()
    if not isinstance(types, list) or len(types) != layers or not all(isinstance(name, str) for name in types):
        raise ModelError(f"{config.where}: layer_types does not name the type of each of the {layers} layers")
    return set(types)


def _window(config: Config, family: Family, layers: int) -> int | None:
    """The sliding window that transformers' cache would see, or None.

    Where a flag switches windows on, only the layers from max_window_layers on have one.
    """
    if family.window_if and not config.flag(family.window_if):
        return None
    window = config.count(("sliding_window",))
    first = config.count(("max_window_layers",)) if family.window_if else None
    return None if first is not None and first >= layers else window


def _assumed_sizes(config: Config, model_type: str) -> tuple[str, ...]:
    sizes = [keys.LAYERS, keys.HIDDEN, keys.HEADS, keys.VOCABULARY, keys.INTERMEDIATE]
    absent = [aliases[0] for aliases in sizes if config.absent(aliases) and aliases[0] in config.defaults]
    if not absent:
        return ()
    taken = ", ".join(f"{key} = {config.defaults[key]}" for key in absent)
    return (f"{config.where} does not say everything; as transformers does for {model_type}, taken as {taken}",)


def _quantization(config: Config) -> str | None:
    """The method that the checkpoint is quantized with already, or None."""
    section = config.values.get("quantization_config")
    if not isinstance(section, dict):
        return None
    return str(section.get("quant_method") or section.get("quant_algo") or "unknown method")[:40]
