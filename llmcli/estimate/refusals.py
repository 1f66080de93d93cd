"""Why a model cannot be sized: every refusal names the property of the model that stands in the way."""

import re
from collections.abc import Mapping
from typing import Any

from llmcli.errors import ModelError
from llmcli.estimate.config import Config, shown

HINT = "Decoder-only models can be sized: dense, MoE, sliding-window, MLA, state-space and hybrid ones."

# fmt: off
_ENCODERS = {
    "albert", "bert", "big_bird", "camembert", "convbert", "deberta", "deberta-v2", "distilbert", "electra", "ernie",
    "esm", "eurobert", "flaubert", "fnet", "funnel", "gte", "ibert", "layoutlm", "longformer", "megatron-bert",
    "mobilebert", "modernbert", "modernvbert", "mpnet", "mra", "nomic_bert", "nystromformer", "perceiver", "rembert",
    "roberta", "roberta-prelayernorm", "roc_bert", "roformer", "squeezebert", "xlm", "xlm-roberta", "xlm-roberta-xl",
    "xmod", "yoso",
}
_ENCODER_DECODERS = {
    "bart", "bigbird_pegasus", "blenderbot", "blenderbot-small", "canary", "dia", "encoder-decoder", "florence2",
    "fsmt", "led", "longt5", "m2m_100", "marian", "mbart", "moonshine", "mt5", "mvp", "nllb-moe", "nougat", "pegasus",
    "pegasus_x", "pix2struct", "plbart", "pop2piano", "prophetnet", "rag", "seamless_m4t", "seamless_m4t_v2",
    "speech-encoder-decoder", "speech_to_text", "speecht5", "switch_transformers", "t5", "t5gemma", "t5gemma2", "udop",
    "umt5", "vision-encoder-decoder", "whisper",
}
# fmt: on
_NO_LANGUAGE_MODEL = re.compile(r".*(Classification|QuestionAnswering|MaskedLM|RewardModel|(?<!LMHead)Model)")
_RECURRENT = (
    "state_size",
    "ssm_state_size",
    "mamba_d_state",
    "mamba_d_conv",
    "ssm_cfg",
    "conv_L_cache",
    "linear_num_value_heads",
    "linear_attn_config",
    "full_attention_interval",
    "attn_layer_period",
    "hybrid_override_pattern",
    "layers_block_type",
    "rwkv_version",
    "lru_width",
)
_RECURRENT_TYPES = re.compile(r"linear_attention|hybrid.*|conv|mamba2?|recurrent|ssm|lightning.*|rwkv.*")
_OWN_LAYERS = {"diffusion_gemma_text", "dots3_note_text", "gemma4_text", "gemma4_unified_text", "step3p5", "step3p7"}
_SHARED = {"diffusion_gemma_text", "gemma3n_text", "gemma4_text", "gemma4_unified_text"}
_UNREAD: Mapping[str, tuple[str, set[str]]] = {
    "per_layer_config": ("layers that differ from each other", _OWN_LAYERS),
    "kv_sharing_modes": ("layers that share a cache", _SHARED | {"mistral_large4_text"}),
    "num_kv_shared_layers": ("layers that share a cache", _SHARED),
    "add_cross_attention": ("cross-attention to an encoder", set()),
    "block_configs": ("layers that differ from each other", {"nemotron-nas"}),
}


def refuse(where: str, model_type: str, reason: str, hint: str = HINT) -> ModelError:
    """The error for a model that has `reason` in the way."""
    short = model_type if len(model_type) <= 60 else model_type[:57] + "…"
    return ModelError(f"{where}: {short} cannot be sized: {reason}", hint)


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


def refuse_unread(config: Config, model_type: str) -> None:
    """Raises ModelError for an encoder-decoder, and for a key that the type's builder does not read but that counts."""
    if model_type in _ENCODER_DECODERS or config.flag("is_encoder_decoder"):
        reason = "an encoder-decoder, whose cache also depends on the length of what its encoder reads"
        raise refuse(config.where, model_type, reason)
    for key, (reason, readers) in _UNREAD.items():
        value = config.values.get(key)
        if value not in (None, False, 0, [], {}, "") and model_type not in readers:
            raise refuse(config.where, model_type, f"{reason} ({key} = {shown(value)})")


def recurrent_key(config: Config) -> tuple[str, Any] | None:
    """A key of `config` that speaks of recurrent layers, with its value; None where there is none."""
    for key in _RECURRENT:
        value = config.values.get(key)
        if value not in (None, False, 0, [], {}, ""):
            return key, value
    types = config.values.get("layer_types")
    for name in types if isinstance(types, list) else ():
        if isinstance(name, str) and _RECURRENT_TYPES.fullmatch(name):
            return "layer_types", name
    return None
