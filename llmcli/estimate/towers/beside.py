"""The parameters beside the language model in a multimodal one, for the types whose towers are known."""

from collections.abc import Callable, Mapping

from llmcli.estimate.class_defaults import Inside, class_defaults, configs_inside
from llmcli.estimate.config import Config
from llmcli.estimate.counts import NOTHING, Count
from llmcli.estimate.towers import encoders, joints, llama, qwen

Tower = Callable[[Config], Count]
Joint = Callable[[Config, Config, int], Count]

# fmt: off
TOWERS: Mapping[str, Tower] = {
    "clip_vision_model": encoders.clip,
    "gemma4_vision": encoders.gemma4,
    "glm4v_moe_vision": qwen.glm4v,
    "glm4v_vision": qwen.glm4v,
    "idefics3_vision": encoders.idefics,
    "internvl_vision": encoders.internvl,
    "llama4_vision_model": llama.llama4,
    "mllama_vision_model": llama.mllama,
    "pixtral": encoders.pixtral,
    "qwen2_5_vl_vision": qwen.qwen2_5,
    "qwen2_audio_encoder": encoders.whisper,
    "qwen2_vl_vision": qwen.qwen2,
    "qwen3_5_moe_vision": qwen.qwen3_5,
    "qwen3_5_vision": qwen.qwen3_5,
    "qwen3_vl_moe_vision": qwen.qwen3,
    "qwen3_vl_vision": qwen.qwen3,
    "siglip_vision_model": encoders.siglip,
    "smolvlm_vision": encoders.idefics,
    "voxtral_encoder": encoders.whisper,
}
JOINTS: Mapping[str, Joint] = {
    "aya_vision": joints.aya,
    "cohere2_vision": joints.cohere2,
    "gemma3": joints.gemma3,
    "gemma4": joints.gemma4,
    "glm4v": joints.nothing, "glm4v_moe": joints.nothing, "glm46v": joints.nothing,
    "idefics3": joints.idefics3, "smolvlm": joints.idefics3,
    "internvl": joints.internvl,
    "llama4": joints.llama4,
    "llava": joints.llava,
    "llava_next": joints.llava_next, "llava_onevision": joints.llava_next, "llava_next_video": joints.llava_next,
    "mistral3": joints.mistral3,
    "mllama": joints.mllama,
    "paligemma": joints.paligemma,
    "qwen2_5_vl": joints.nothing, "qwen2_vl": joints.nothing,
    "qwen2_audio": joints.qwen2_audio,
    "qwen3_5": joints.nothing, "qwen3_5_moe": joints.nothing,
    "qwen3_vl": joints.nothing, "qwen3_vl_moe": joints.nothing,
    "shieldgemma2": joints.gemma3,
    "vipllava": joints.vipllava,
    "voxtral": joints.voxtral,
}
# fmt: on
_KEYS = ("vision_config", "audio_config")


def towers_of(config: Config, model_type: str, hidden: int) -> Count | None:
    """The towers and what joins them to a language model of `hidden` channels; None where they are not known.

    Raises ModelError that names what is missing or wrong in a tower's config.
    """
    joint = JOINTS.get(model_type)
    if joint is None:
        return None
    total = NOTHING
    for key, inside in configs_inside(model_type).items():
        if key not in _KEYS or (inside.optional and config.values.get(key) is None):
            continue
        tower = _tower(config, key, inside)
        count = TOWERS.get(tower[0])
        if count is None:
            return None
        total += count(tower[1]) + joint(config, tower[1], hidden)
    return total


def _tower(config: Config, key: str, inside: Inside) -> tuple[str, Config]:
    """The type of a tower, and its config with the defaults of its class."""
    section = config.section(key)
    if section is None:
        return inside.model_type, Config(f"{config.where}: {key}", inside.values, class_defaults(inside.model_type))
    said = None if inside.only else section.text(("model_type",))
    model_type = said or inside.model_type
    return model_type, section.with_defaults(class_defaults(model_type))
