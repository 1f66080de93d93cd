"""Why a model cannot be sized yet: every refusal names the property of the model that stands in the way."""

import re
from typing import Any

from llmcli.errors import ModelError
from llmcli.estimate.config import Config, shown
from llmcli.estimate.families import FAMILIES

HINT = "This version sizes dense decoder-only models with full attention: llama, qwen2, qwen3, gemma, phi3 and others."

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_moe_experts")
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
_TOWERS = ("vision_config", "audio_config", "speech_config", "text_config", "thinker_config", "llm_config")
_SHARED = ("num_kv_shared_layers", "kv_sharing_modes", "kv_source_layers")
_PER_LAYER = ("per_layer_config", "block_configs", "cross_attention_layers")
_FEATURES = (
    (_TOWERS, "multimodal, with a tower beside the language model"),
    (("kv_lora_rank",), "multi-head latent attention (MLA)"),
    (_RECURRENT, "recurrent (state-space or linear-attention) layers"),
    (_EXPERTS, "a mixture of experts (MoE)"),
    (_SHARED, "layers that share one KV cache"),
    (_PER_LAYER, "layers that differ from each other"),
    (("attention_chunk_size",), "chunked attention"),
    (("window_size",), "local attention"),
)
_RECURRENT_TYPES = ("rwkv", "xlstm", "recurrent_gemma", "mamba", "mamba2", "falcon_mamba")
_ENCODERS = ("albert", "bert", "camembert", "deberta", "deberta-v2", "distilbert", "electra", "modernbert", "roberta")
_NAMED_TYPES = {
    **dict.fromkeys(_RECURRENT_TYPES, "recurrent (state-space) layers"),
    **dict.fromkeys(_ENCODERS, "an encoder, which writes no text and has no KV cache"),
}
_NO_LANGUAGE_MODEL = re.compile(r".*(Classification|QuestionAnswering|MaskedLM|RewardModel|(?<!LMHead)Model)")


def refuse(where: str, model_type: str, reason: str) -> ModelError:
    """The error for a model that has `reason` in the way."""
    return ModelError(f"{where}: {model_type} cannot be sized yet: {reason}", HINT)


def check(config: Config) -> str:
    """The config's model_type. Raises ModelError when the model is of a kind that cannot be sized yet."""
    model_type = config.text(("model_type",))
    if not model_type:
        raise ModelError(f"{config.where}: model_type is missing", "Name the config.json of a transformers model.")
    reason = _reason(config, model_type)
    if reason:
        raise refuse(config.where, model_type if len(model_type) <= 60 else model_type[:57] + "…", reason)
    return model_type


def _reason(config: Config, model_type: str) -> str | None:
    if config.flag("is_encoder_decoder"):
        return "an encoder-decoder model"
    if model_type in _NAMED_TYPES:
        return _NAMED_TYPES[model_type]
    return _feature(config) or (_no_language_model(config) if model_type in FAMILIES else _unknown(config))


def _feature(config: Config) -> str | None:
    for keys, reason in _FEATURES:
        key, value = config.raw(keys)
        if _says_something(value):
            return f"{reason} ({key}{_short(value)})"
    return "cross-attention (add_cross_attention)" if config.flag("add_cross_attention") else None


def _unknown(config: Config) -> str:
    key, value = config.raw(("sliding_window", "attention_window_size"))
    return (
        f"sliding-window attention ({key}{_short(value)})" if _says_something(value) else "this model type is not known"
    )


def _no_language_model(config: Config) -> str | None:
    names = config.values.get("architectures")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        return None
    if all(_NO_LANGUAGE_MODEL.fullmatch(name) for name in names):
        return f"no language model, but {shown(names[0])}"
    return None


def _says_something(value: Any) -> bool:
    return value is not None and value is not False and value not in (0, [], {}, "")


def _short(value: object) -> str:
    return f" = {shown(value)}" if isinstance(value, int | str) else ""
