"""The architectures that llama.cpp has, by the names that GGUF files give them, and transformers' types for the same.

Read in llama.cpp 0.5.0: src/llama-arch.cpp for the names, conversion/ for the models that become each of them.
"""

from collections.abc import Mapping

# fmt: off
MODEL_TYPES: Mapping[str, tuple[str, ...]] = {
    "afmoe": ("afmoe",), "apertus": ("apertus",), "arcee": ("arcee",), "bailingmoe3": ("bailing_hybrid",),
    "bitnet": ("bitnet",), "bloom": ("bloom",), "chameleon": ("chameleon",), "chatglm": ("glm", "chatglm"),
    "cohere2": ("cohere2",), "cohere2moe": ("cohere2_moe",), "command-r": ("cohere",), "dbrx": ("dbrx",),
    "deci": ("nemotron-nas",),
    "deepseek2": (
        "deepseek_v3", "deepseek_v2", "glm4_moe_lite", "kimi_k2", "kimi_k25", "sarvam_mla", "youtu",
    ),
    "deepseek32": ("deepseek_v32",), "deepseek4": ("deepseek_v4",), "dots1": ("dots1",),
    "dots3note": ("dots3_note_text", "dots3_note"), "ernie4_5": ("ernie4_5",), "ernie4_5-moe": ("ernie4_5_moe",),
    "exaone": ("exaone",), "exaone-moe": ("exaone_moe",), "exaone4": ("exaone4", "exaone4_5"),
    "falcon": ("falcon", "RefinedWeb", "RefinedWebModel"), "falcon-h1": ("falcon_h1",), "gemma": ("gemma",),
    "gemma2": ("gemma2",), "gemma3": ("gemma3_text", "gemma3"), "gemma3n": ("gemma3n_text", "gemma3n"),
    "gemma4": ("gemma4_text", "gemma4", "gemma4_unified", "gemma4_unified_text"),
    "glm-dsa": ("glm_moe_dsa",), "glm4": ("glm4", "glm4v", "glm4v_text", "glm_ocr", "glm_ocr_text"),
    "glm4moe": ("glm4_moe", "glm4v_moe", "glm4v_moe_text", "sarvam_moe", "solar_open"),
    "glm5-next": ("glm5_next", "glm5_next_text"), "gpt-oss": ("gpt_oss",), "gpt2": ("gpt2", "gpt-sw3"),
    "gptneox": ("gpt_neox",), "granite": ("granite",), "granite_swa": ("granite_swa", "granitemoe_swa"),
    "granitehybrid": ("granitemoehybrid", "bamba"), "granitemoe": ("granitemoe", "granitemoeshared"),
    "hunyuan-dense": ("hunyuan_v1_dense",), "hunyuan-moe": ("hunyuan_v1_moe",), "hy_v3": ("hy_v3",),
    "hy_v4": ("hy_v4",), "jais2": ("jais2",), "jamba": ("jamba",), "kimi-linear": ("kimi_linear",),
    "laguna": ("laguna",), "lfm2": ("lfm2",), "lfm2moe": ("lfm2_moe",),
    "llama": ("llama", "Yi", "internlm3", "iquestcoder", "janus", "llava", "mistral", "mixtral"),
    "llama4": ("llama4_text", "llama4"), "mamba": ("mamba", "falcon_mamba"), "mamba2": ("mamba2",),
    "mellum": ("mellum",), "mimo2": ("mimo_v2_flash",), "minicpm": ("minicpm",), "minicpm3": ("minicpm3",),
    "minimax-01": ("minimax",), "minimax-m2": ("minimax_m2",), "minimax-m3": ("minimax_m3_vl_text", "minimax_m3_vl"),
    "mistral3": ("ministral3", "mistral3"), "mistral4": ("mistral4",), "muse-glimmer": ("muse_glimmer",),
    "nemotron": ("nemotron",), "nemotron_h": ("nemotron_h",), "nemotron_h_moe": ("nemotron_h",), "olmo": ("olmo",),
    "olmo2": ("olmo2", "olmo3"), "olmoe": ("olmoe",), "phi2": ("phi", "mixformer-sequential", "phi-msft"),
    "phi3": ("phi3",), "phimoe": ("phimoe",),
    "plamo2": ("plamo2",), "qwen2": ("qwen2",), "qwen2moe": ("qwen2_moe",),
    "qwen2vl": ("qwen2_vl_text", "qwen2_vl", "qwen2_5_omni_text", "qwen2_5_vl", "qwen2_5_vl_text"), "qwen3": ("qwen3",),
    "qwen35": ("qwen3_5_text", "qwen3_5"), "qwen35moe": ("qwen3_5_moe_text", "qwen3_5_moe"),
    "qwen3moe": ("qwen3_moe",), "qwen3next": ("qwen3_next",), "qwen3vl": ("qwen3_vl_text", "qwen3_vl"),
    "qwen3vlmoe": ("qwen3_vl_moe_text", "qwen3_omni_moe_text", "qwen3_vl_moe"),
    "qwen4exp": ("qwen4_exp_text", "qwen4_exp"),
    "seed_oss": ("seed_oss",), "smollm3": ("smollm3",), "stablelm": ("stablelm", "stablelm_epoch"),
    "starcoder": ("gpt_bigcode",), "starcoder2": ("starcoder2",), "step35": ("step3p5", "step3p7", "step3p7_text"),
}
"""GGUF architecture: transformers' types that are converted to it, the one that such a file corresponds to first."""

_WITHOUT_TYPE = frozenset({
    "arctic", "arwkv7", "baichuan", "bailingmoe", "bailingmoe2", "codeshell", "cogvlm", "deepseek", "deepseek2-ocr",
    "gptj", "grok", "grovemoe", "hrm_text", "hunyuan_vl", "internlm2", "jais", "kimi-k3", "llama-embed",
    "maincoder", "maple", "mpt", "openelm", "orion", "paddleocr", "pangu-embedded", "plamo", "plamo3", "plm", "qwen",
    "refact", "rwkv6", "rwkv6qwen2", "rwkv7", "smallthinker", "spark2_5", "talkie", "xverse",
})
# fmt: on
_OF_TYPE = {kind: name for name, kinds in MODEL_TYPES.items() for kind in kinds}
_OF_TYPE["nemotron_h"] = "nemotron_h"
KNOWN = frozenset(MODEL_TYPES) | _WITHOUT_TYPE


def architecture_of(model_type: str) -> str:
    """What llama.cpp calls a model of this type of transformers; a name that it has no other for stays as it is."""
    return _OF_TYPE.get(model_type, model_type)


def model_type_of(architecture: str) -> str:
    """The type of transformers for a GGUF architecture; GGUF's own name where there is none."""
    types = MODEL_TYPES.get(architecture)
    return types[0] if types else architecture
