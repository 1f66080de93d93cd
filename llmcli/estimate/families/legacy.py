"""Names and keys from before transformers had a model, and models that run with code from their repository only.

The first kind is the same model as a type that is proved, under other keys. The second has no class in transformers to
be proved against: it is built as its repository's code describes it, and marked as not exact.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from llmcli.estimate.class_defaults import class_defaults
from llmcli.estimate.config import Config
from llmcli.estimate.facts import Blueprint
from llmcli.estimate.families import legacy_keys as own
from llmcli.estimate.families.decoder import Style, build
from llmcli.estimate.families.legacy_block_configs import build_block_configs
from llmcli.estimate.families.legacy_openelm import build_openelm
from llmcli.estimate.families.registry import builder_of
from llmcli.estimate.refusals import refuse
from llmcli.estimate.windows import from_flag, no_window

Translation = Callable[[Config], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Renamed:
    """A model that transformers has under another type. keys: theirs by ours; more: values that follow from others."""

    model_type: str
    keys: Mapping[str, str] = field(default_factory=dict)
    more: Translation | None = None


@dataclass(frozen=True, slots=True)
class Remote:
    """A model that transformers does not have. style: how it is built; keys, more: as in `Renamed`."""

    style: Style
    keys: Mapping[str, str] = field(default_factory=dict)
    more: Translation | None = None


_LLAMA = Style(qkv_bias="attention_bias", output_bias="attention_bias", mlp_bias="mlp_bias", windows=no_window)
_GPT = Style(
    kv_heads="all",
    explicit_head_dim=False,
    qkv_bias=True,
    output_bias=True,
    mlp_bias=True,
    norm=2,
    windows=no_window,
)
_FALCON = {"n_layer": "num_hidden_layers", "n_head": "num_attention_heads", "n_head_kv": "num_kv_heads"}
_PHI = {
    "n_layer": "num_hidden_layers",
    "n_embd": "hidden_size",
    "n_head": "num_attention_heads",
    "n_head_kv": "num_key_value_heads",
    "n_inner": "intermediate_size",
    "n_positions": "max_position_embeddings",
}

RENAMED: Mapping[str, Renamed] = {
    "RefinedWeb": Renamed("falcon", _FALCON, own.falcon),
    "RefinedWebModel": Renamed("falcon", _FALCON, own.falcon),
    "Yi": Renamed("llama"),
    "mixformer-sequential": Renamed("phi", _PHI, own.phi),
    "phi-msft": Renamed("phi", _PHI, own.phi),
    "stablelm_epoch": Renamed("stablelm"),
}
REMOTE: Mapping[str, Remote] = {
    "aquila": Remote(_LLAMA),
    "baichuan": Remote(replace(_LLAMA, kv_heads="all")),
    "chatglm": Remote(
        Style(qkv_bias="add_qkv_bias", output_bias="add_bias_linear", mlp_bias="add_bias_linear", windows=no_window),
        {
            "num_layers": "num_hidden_layers",
            "kv_channels": "head_dim",
            "ffn_hidden_size": "intermediate_size",
            "padded_vocab_size": "vocab_size",
        },
        own.chatglm,
    ),
    "exaone": Remote(Style(windows=no_window), {"num_layers": "num_hidden_layers"}),
    "internlm": Remote(replace(_LLAMA, qkv_bias="bias", output_bias="bias", mlp_bias=False)),
    "internlm2": Remote(replace(_LLAMA, qkv_bias="bias", output_bias="bias", mlp_bias=False)),
    "jais": Remote(
        _GPT,
        {"n_layer": "num_hidden_layers", "n_embd": "hidden_size", "n_head": "num_attention_heads"},
        own.jais,
    ),
    "mimo": Remote(Style(qkv_bias=True, windows=from_flag)),
    "minicpm": Remote(_LLAMA, more=own.tied_unless_said),
    "orion": Remote(replace(_LLAMA, norm=2)),
    "phi3small": Remote(
        Style(qkv_bias=True, output_bias=True, mlp_bias=True, norm=2, windows=no_window),
        {"ff_intermediate_size": "intermediate_size"},
        own.tied_unless_said,
    ),
    "plamo": Remote(replace(_LLAMA, norms=1), more=own.plamo),
    "qwen": Remote(
        Style(kv_heads="all", qkv_bias=True, windows=no_window), {"kv_channels": "head_dim"}, own.half_intermediate
    ),
    "xverse": Remote(_LLAMA),
}


def translated(config: Config, names: Mapping[str, str], more: Translation | None) -> Config:
    """The config under our names. A key that is there under ours already stays as it is."""
    values = dict(config.values)
    for theirs, ours in names.items():
        if theirs in values and values.get(ours) is None:
            values[ours] = values[theirs]
    renamed = replace(config, values=values)
    return replace(renamed, values={**values, **more(renamed)}) if more else renamed


def build_renamed(config: Config, row: Renamed) -> Blueprint:
    """The blueprint of the type that transformers has. Raises ModelError as that type's builder does."""
    build_known = builder_of(row.model_type)
    if build_known is None:
        raise refuse(config.where, row.model_type, "this model type is not known")
    return build_known(translated(config, row.keys, row.more).with_defaults(class_defaults(row.model_type)))


def build_remote(config: Config, row: Remote) -> Blueprint:
    """The blueprint of a model without a class in transformers. Raises ModelError that names what is missing."""
    blueprint = unproved(build(translated(config, row.keys, row.more), row.style))
    if not config.size("num_nextn_predict_layers"):
        return blueprint
    return replace(blueprint, notes=(*blueprint.notes, "layers for multi-token prediction are not counted"))


def unproved(blueprint: Blueprint) -> Blueprint:
    """The same, marked as sized without a class to be proved against."""
    reason = "not proved: this model type runs with code from its own repository only, as which it is sized"
    return replace(blueprint, inexact=(*blueprint.inexact, reason))


BUILDERS = {
    **{model_type: partial(build_renamed, row=row) for model_type, row in RENAMED.items()},
    **{model_type: partial(build_remote, row=row) for model_type, row in REMOTE.items()},
    "nemotron-nas": lambda config: unproved(build_block_configs(config)),
    "openelm": lambda config: unproved(build_openelm(config)),
}
