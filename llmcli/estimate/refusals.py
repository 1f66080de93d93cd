"""Why a model cannot be sized: every refusal names the property of the model that stands in the way."""

import re
from typing import Any

from llmcli.errors import ModelError
from llmcli.estimate.config import Config, shown

HINT = "Decoder-only models can be sized: dense, MoE, sliding-window, MLA, state-space and hybrid ones."

_ENCODERS = ("albert", "bert", "camembert", "deberta", "deberta-v2", "distilbert", "electra", "modernbert", "roberta")
_NO_LANGUAGE_MODEL = re.compile(r".*(Classification|QuestionAnswering|MaskedLM|RewardModel|(?<!LMHead)Model)")
_RECURRENT = (
    "state_size",
    "ssm_state_size",
    "mamba_d_state",
    "ssm_cfg",
    "conv_L_cache",
    "linear_num_value_heads",
    "linear_attn_config",
    "full_attention_interval",
    "attn_layer_period",
    "hybrid_override_pattern",
    "layers_block_type",
)


def refuse(where: str, model_type: str, reason: str) -> ModelError:
    """The error for a model that has `reason` in the way."""
    short = model_type if len(model_type) <= 60 else model_type[:57] + "…"
    return ModelError(f"{where}: {short} cannot be sized: {reason}", HINT)


def model_type_of(config: Config) -> str:
    """The config's model_type. Raises ModelError when there is none, or when the model writes no text."""
    model_type = config.text(("model_type",))
    if not model_type:
        raise ModelError(f"{config.where}: model_type is missing", "Name the config.json of a transformers model.")
    if model_type in _ENCODERS:
        raise refuse(config.where, model_type, "an encoder, which writes no text and has no KV cache")
    names = config.values.get("architectures")
    if isinstance(names, list) and names and all(_no_language_model(name) for name in names):
        raise refuse(config.where, model_type, f"no language model, but {shown(names[0])}")
    return model_type


def _no_language_model(name: object) -> bool:
    return isinstance(name, str) and _NO_LANGUAGE_MODEL.fullmatch(name) is not None


def recurrent_key(config: Config) -> tuple[str, Any] | None:
    """A key of `config` that speaks of recurrent layers, with its value; None where there is none."""
    key, value = config.raw(_RECURRENT)
    return (key, value) if value not in (None, False, 0, [], {}, "") else None


def refuse_unread(language):
    pass
