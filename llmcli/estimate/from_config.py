"""From a config.json to the facts that sizes follow from."""

from llmcli.estimate import config as keys
from llmcli.estimate.architecture import Architecture
from llmcli.estimate.class_defaults import class_defaults
from llmcli.estimate.config import Config
from llmcli.estimate.counts import NOTHING
from llmcli.estimate.families.registry import builder_of
from llmcli.estimate.refusals import model_type_of, refuse


def from_config(config: Config) -> Architecture:
    """The facts in a model's config. Raises ModelError that names what is missing, wrong, or cannot be sized."""
    model_type = model_type_of(config)
    build = builder_of(model_type)
    if build is None:
        raise refuse(config.where, model_type, "this model type is not known")
    config = config.with_defaults(class_defaults(model_type))
    blueprint = build(config)
    return Architecture(
        model_type=model_type,
        layers=blueprint.layers,
        count=sum((layer.count for layer in blueprint.layers), start=blueprint.outside + NOTHING),
        heads=blueprint.heads,
        kv_heads=blueprint.kv_heads,
        head_dim=blueprint.head_dim,
        hidden=blueprint.hidden,
        intermediate=blueprint.intermediate,
        vocabulary=blueprint.vocabulary,
        dtype=config.text(keys.DTYPE),
        positions=config.count(keys.POSITIONS),
        quantization=_quantization(config),
        inexact=blueprint.inexact,
        warnings=(*_assumed_sizes(config, model_type), *blueprint.notes),
    )


def _assumed_sizes(config: Config, model_type: str) -> tuple[str, ...]:
    """A warning that names the sizes which the config leaves to the class."""
    absent = []
    for aliases in (keys.LAYERS, keys.HIDDEN, keys.HEADS, keys.VOCABULARY, keys.INTERMEDIATE):
        key, value = config.value(aliases)
        if config.absent(aliases) and value is not None:
            absent.append(f"{key} = {value}")
    if not absent:
        return ()
    return (
        f"{config.where} does not say everything; as transformers does for {model_type}, taken as {', '.join(absent)}",
    )


def _quantization(config: Config) -> str | None:
    """The method that the checkpoint is quantized with already, or None."""
    section = config.values.get("quantization_config")
    if not isinstance(section, dict):
        return None
    return str(section.get("quant_method") or section.get("quant_algo") or "unknown method")[:40]
