"""The model types that can be sized, and the module that knows how each is built."""

from collections.abc import Callable, Mapping
from importlib import import_module

from llmcli.estimate.config import Config
from llmcli.estimate.facts import Blueprint

Builder = Callable[[Config], Blueprint]

# fmt: off
_MODULES: Mapping[str, tuple[str, ...]] = {
    "dense": (
        "apertus", "apertus1p5_text", "arcee", "bitnet", "cohere", "diffllama", "ernie4_5", "gemma", "glm", "glm4",
        "granite", "helium", "hunyuan_v1_dense", "hyperclovax", "internlm3", "iquestcoder", "jais2", "llama",
        "ministral", "ministral3", "mistral", "nanochat", "nemotron", "olmo", "olmo2", "phi", "phi3", "qwen2", "qwen3",
        "seed_oss", "smollm3", "stablelm", "starcoder2",
    ),
    # multi-head attention, layer norms with biases, a plain MLP
    "gpt": (
        "biogpt", "bloom", "codegen", "ctrl", "falcon", "gpt-sw3", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox",
        "gpt_neox_japanese", "gptj", "mpt", "openai-gpt", "opt", "persimmon", "xglm",
    ),
    # windows: dense decoders whose layers differ in what they see
    "sliding": (
        "cohere2", "cohere_compass_text", "cwm", "exaone4", "gemma2", "gemma3_text", "granite_swa",
        "modernbert-decoder", "olmo3", "vaultgemma",
    ),
    # layers that share a cache, and heads that differ by layer
    "gemma": ("gemma3n_text", "gemma4_text", "gemma4_unified_text"),
    # layers that run several times per token
    "loops": ("dory", "hrm_text"),
    # experts: a mixture of experts in place of the MLP
    "mixture": (
        "afmoe", "aria_text", "beam", "cohere2_moe", "dbrx", "doge", "dots1", "ernie4_5_moe", "exaone_moe", "flex_olmo",
        "flint", "glm4_moe", "gpt_oss", "granitemoe", "granitemoe_swa", "granitemoeshared", "hunyuan_v1_moe", "hy_v3",
        "jetmoe", "kolibri1", "laguna", "llama4_text", "mellum", "mimo_v2_flash", "minimax_m2", "mixtral", "olmoe",
        "phimoe", "qwen2_moe", "qwen3_moe", "sarvam_moe", "solar_open",
    ),
    # one compressed row per token
    "latent": (
        "axk1", "axk2", "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_v4", "dots3_note_text",
        "glm4_moe_lite", "glm_moe_dsa", "hy_v4", "kimi_k2", "longcat_flash", "minicpm3", "minimax_m3_vl_text",
        "mistral4", "sarvam_mla", "youtu",
    ),
    # states of a fixed size
    "mamba": ("falcon_mamba", "mamba", "mamba2"),
    "rnn": ("rwkv", "xlstm"),
    # both kinds of layers
    "deltanet": ("lara_mini", "olmo_hybrid", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"),
    "inkling": ("inkling_text",),
    "kimi_delta": ("bailing_hybrid", "kimi_linear"),
    "mamba_hybrid": ("bamba", "falcon_h1", "granitemoehybrid", "jamba"),
    "minimax": ("minimax",),
    "nemotron_h": ("nemotron_h",),
    "qwen4_exp": ("qwen4_exp_text",),
    "recurrent_gemma": ("recurrent_gemma",),
    "shortconv": ("lfm2", "lfm2_moe", "lfm3"),
    "zamba": ("zamba", "zamba2"),
    "zaya": ("zaya",),
    # a language model inside a multimodal one
    "nested": (
        "cosmos3_edge_text", "emu3_text_model", "ernie4_5_vl_moe_text", "glm4v_moe_text", "glm4v_text",
        "glm_ocr_text", "granite_docling_text", "mllama_text_model", "paddleocr_vl_text", "qwen2_5_omni_text",
        "qwen2_5_vl_text", "qwen2_vl_text", "qwen3_omni_moe_text", "qwen3_vl_moe_text", "qwen3_vl_text",
    ),
    # names and keys from before transformers had the model
    "legacy": (
        "RefinedWeb", "RefinedWebModel", "Yi", "aquila", "baichuan", "chatglm", "exaone", "internlm", "internlm2",
        "jais", "mimo", "minicpm", "mixformer-sequential", "nemotron-nas", "openelm", "orion", "phi-msft", "phi3small",
        "plamo", "qwen", "stablelm_epoch", "xverse",
    ),
}
MULTIMODAL = (
    "apertus1p5", "aria", "audioflamingo3", "aya_vision", "blip-2", "cohere2_vision", "cohere_compass", "cosmos3_edge",
    "cosmos3_omni", "deepseek_ocr2", "deepseek_vl", "deepseek_vl_hybrid", "diffusion_gemma", "dots3_note", "emu3",
    "ernie4_5_vl_moe", "exaone4_5", "fast_vlm", "fun_asr_nano", "fuyu", "gemma3", "gemma3n", "gemma4",
    "gemma4_unified", "glm46v", "glm4v", "glm4v_moe", "glm_ocr", "glmasr", "glmga", "got_ocr2",
    "granite4_vision", "granite_docling", "granite_speech", "granite_speech_plus", "hunyuan_vl", "hy_v4_vl",
    "hyperclovax_vision_v2", "idefics2", "idefics3", "inkling2", "inkling2_loop", "inkling_mm_model", "instructblip",
    "instructblipvideo", "internvl", "janus", "kimi_k25", "kosmos-2", "kosmos-2.5", "lfm2_vl", "lfm3_vl",
    "lighton_ocr", "llama4", "llava", "llava_next", "llava_next_video", "llava_onevision", "minicpm_ocr",
    "minicpmv4_6", "minicpmv4_7", "minimax_m3_vl", "mistral3", "mistral_large4", "mllama", "molmo2",
    "moss_transcribe_diarize", "muse_glimmer", "muse_spark", "musicflamingo", "nemo_speechlm", "nemotron_h_omni",
    "omniasr", "ovis2", "paddleocr_vl", "paligemma", "perception_lm", "pp_chart2table", "qianfan_ocr", "qwen2_5_omni",
    "qwen2_5_omni_thinker", "qwen2_5_vl", "qwen2_audio", "qwen2_vl", "qwen3_5", "qwen3_5_moe", "qwen3_asr",
    "qwen3_omni_moe", "qwen3_omni_moe_thinker", "qwen3_vl", "qwen3_vl_moe", "qwen4_exp", "shieldgemma2", "smolvlm",
    "step3p7", "unlimited_ocr", "vibevoice", "vibevoice_asr", "video_llama_3", "video_llava", "vipllava", "voxtral",
    "voxtral_realtime",
)
"""Types of transformers that hold a language model's config inside theirs; others that do are sized as well."""
# fmt: on
MODULE_OF = {model_type: module for module, types in _MODULES.items() for model_type in types}
"""Model type: the module of this package that builds it. Only that one is imported."""


def builder_of(model_type: str) -> Builder | None:
    """What makes a blueprint of a config of this type; None for a type that is not known."""
    module = MODULE_OF.get(model_type)
    if module is None:
        return None
    builders: Mapping[str, Builder] = import_module(f"llmcli.estimate.families.{module}").BUILDERS
    return builders[model_type]
