"""The language model of a config: the config itself, or the part of a multimodal config that describes it.

Read in transformers 5.24, configuration_utils.py (`SubConfigSpec.create_subconfig`), and in each class's
`__post_init__`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from llmcli.errors import ModelError
from llmcli.estimate import config as keys
from llmcli.estimate.class_defaults import Inside, class_defaults, configs_inside
from llmcli.estimate.config import Config

_THINKER = "thinker_config"
SECTIONS = ("text_config", "llm_config", "language_config", _THINKER)
TIED = "tie_word_embeddings"

# fmt: off
_TIED_BY_EITHER = {
    "fast_vlm", "glm4v", "glm4v_moe", "glm_ocr", "hunyuan_vl", "kosmos-2", "llava", "llava_next_video",
    "llava_onevision", "minimax_m3_vl", "paddleocr_vl", "qwen2_5_vl", "qwen2_vl", "shieldgemma2", "video_llama_3",
}
_TIED_BY_ITS_OWN = {"blip-2", "instructblip", "instructblipvideo", "kosmos-2.5", "llama4"}
_NEVER_TIED = {
    "cosmos3_edge", "inkling2", "inkling2_loop", "inkling_mm_model", "mllama", "molmo2", "muse_spark", "nemo_speechlm",
    "nemotron_h_omni", "omniasr", "qwen2_audio", "vibevoice_asr", "voxtral",
}
# fmt: on
_FILLED_UP = {"glmasr", "voxtral", "voxtral_realtime"}  # a part's missing keys are those of the absent part
_FACTS = ("model_type", "architectures", "auto_map", "quantization_config")


@dataclass(frozen=True, slots=True)
class Language:
    """A language model: its type and config. around: the multimodal config that it stands in, with that one's type."""

    model_type: str
    config: Config
    around: tuple[str, Config] | None = None


def language_of(config: Config, model_type: str) -> Language:
    """The language model that `config` describes. Raises ModelError for a part that is no object or has no type."""
    config = config.with_defaults(class_defaults(model_type))
    key, inside = _part(config, model_type)
    if key is None:
        return Language(model_type, config)
    section = _section(config, key, inside)
    if inside and model_type in _FILLED_UP:
        section = replace(section, values={**inside.values, **section.values})
    text_type = _type(section, inside)
    if key == _THINKER and section.values.get(_THINKER) is None:
        return language_of(section, text_type)
    text = section.with_defaults(class_defaults(text_type))
    tied = _tied(config, model_type, text)
    return Language(text_type, replace(text, values={**text.values, TIED: tied}), (model_type, config))


def _part(config: Config, model_type: str) -> tuple[str | None, Inside | None]:
    """The key of the part that describes the language model, and what the class says of it."""
    known = configs_inside(model_type)
    for key in SECTIONS:
        if key in known or config.values.get(key):
            return key, known.get(key)
    return None, None


def _section(config: Config, key: str, inside: Inside | None) -> Config:
    """The part itself. Configs from before it was a part of its own have its keys at the top level."""
    if (section := config.section(key)) is not None:
        return section
    if not config.absent(keys.HIDDEN) or not config.absent(keys.LAYERS):
        flat = {name: one for name, one in config.values.items() if name not in _FACTS and not isinstance(one, Mapping)}
        return Config(config.where, flat)
    return Config(f"{config.where}: {key}", inside.values if inside else {})


def _type(section: Config, inside: Inside | None) -> str:
    said = section.text(("model_type",))
    if inside and (inside.only or not said):
        return inside.model_type
    if not said:
        raise ModelError(f"{section.where}: model_type is missing", "It says how the language model is built.")
    return said


def _tied(config: Config, model_type: str, text: Config) -> bool:
    """Whether the head is the embedding: the class decides which of the two configs says so."""
    if model_type in _NEVER_TIED:
        return False
    if model_type in _TIED_BY_ITS_OWN or (TIED not in config.values and not class_defaults(model_type)):
        return text.flag(TIED)
    return config.flag(TIED) or (model_type in _TIED_BY_EITHER and text.flag(TIED))


def dtype_of(language: Language) -> str | None:
    """The dtype that the whole config names, or else its language model's."""
    whole = language.around[1].text(keys.DTYPE) if language.around else None
    return whole or language.config.text(keys.DTYPE)


def quantization_of(language: Language) -> str | None:
    """The method that the checkpoint is quantized with already, or None."""
    configs = (language.around[1], language.config) if language.around else (language.config,)
    sections: list[Any] = [config.values.get("quantization_config") for config in configs]
    section = next((section for section in sections if isinstance(section, dict)), None)
    if section is None:
        return None
    return str(section.get("quant_method") or section.get("quant_algo") or "unknown method")[:40]
