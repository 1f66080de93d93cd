"""From a config.json to the facts that sizes follow from."""

from dataclasses import replace

from llmcli.estimate import config as keys
from llmcli.estimate.architecture import Architecture
from llmcli.estimate.class_defaults import class_defaults
from llmcli.estimate.config import Config
from llmcli.estimate.counts import NOTHING, Count
from llmcli.estimate.facts import Blueprint
from llmcli.estimate.families.registry import builder_of
from llmcli.estimate.language import TIED, Language, dtype_of, language_of, quantization_of
from llmcli.estimate.refusals import model_type_of, refuse_unread


def from_config(config: Config) -> Architecture:
    """The facts in a model's config. Raises ModelError that names what is missing, wrong, or cannot be sized."""
    model_type = model_type_of(config)
    language = language_of(config, model_type)
    blueprint = _blueprint(language)
    return Architecture(
        model_type=model_type,
        decoder_type="" if language.model_type == model_type else language.model_type,
        layers=blueprint.layers,
        count=sum((layer.count for layer in blueprint.layers), start=blueprint.outside + NOTHING),
        heads=blueprint.heads,
        kv_heads=blueprint.kv_heads,
        head_dim=blueprint.head_dim,
        hidden=blueprint.hidden,
        intermediate=blueprint.intermediate,
        vocabulary=blueprint.vocabulary,
        dtype=dtype_of(language),
        positions=language.config.count(keys.POSITIONS),
        vision=blueprint.vision,
        quantization=quantization_of(language),
        inexact=blueprint.inexact,
        warnings=(*_assumed_sizes(language), *_assumed_tied(language, blueprint), *blueprint.notes),
    )


def _blueprint(language: Language) -> Blueprint:
    refuse_unread(language.config, language.model_type)
    build = builder_of(language.model_type)
    if build is not None:
        blueprint = build(language.config)
    else:
        from llmcli.estimate.families.unknown import build_unknown

        blueprint = build_unknown(language.config, language.model_type)
    return blueprint if language.around is None else _with_towers(blueprint, *language.around)


def _with_towers(blueprint: Blueprint, model_type: str, config: Config) -> Blueprint:
    from llmcli.estimate.towers.beside import towers_of

    vision: Count | None = towers_of(config, model_type, blueprint.hidden)
    notes = blueprint.notes
    if vision is None:
        notes += (f"the parameters beside the language model ({model_type}) are not known: they are not counted",)
    return replace(blueprint, vision=vision, notes=notes)


def _assumed_sizes(language: Language) -> tuple[str, ...]:
    """A warning that names the sizes which the config leaves to the class."""
    config, absent = language.config, []
    for aliases in (keys.LAYERS, keys.HIDDEN, keys.HEADS, keys.VOCABULARY, keys.INTERMEDIATE):
        key, value = config.value(aliases)
        if config.absent(aliases) and value is not None:
            absent.append(f"{key} = {value}")
    if not absent:
        return ()
    said = f"{config.where} does not say everything"
    return (f"{said}; as transformers does for {language.model_type}, taken as {', '.join(absent)}",)


def _assumed_tied(language: Language, blueprint: Blueprint) -> tuple[str, ...]:
    """A warning where a multimodal class ties head and embedding, and the language model's own class does not."""
    if language.around is None:
        return ()
    outer = language.around[1]
    if TIED in outer.values or not outer.flag(TIED) or class_defaults(language.model_type).get(TIED):
        return ()
    more = blueprint.vocabulary * blueprint.hidden
    said = f"{outer.where} does not say {TIED}; as transformers does for {language.around[0]}, taken as true"
    return (f"{said}: a checkpoint with a head of its own has {more} parameters more",)
