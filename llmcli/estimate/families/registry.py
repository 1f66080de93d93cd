"""The model types that can be sized, and the module that knows how each is built."""

from collections.abc import Callable, Mapping
from importlib import import_module

from llmcli.estimate.config import Config
from llmcli.estimate.facts import Blueprint

Builder = Callable[[Config], Blueprint]

# fmt: off
_MODULES: Mapping[str, tuple[str, ...]] = {
    "dense": (
        "arcee", "bloom", "codegen", "cohere", "ernie4_5", "gemma", "glm", "glm4", "gpt2", "gpt_bigcode", "gpt_neox",
        "gptj", "granite", "llama", "mistral", "nemotron", "olmo", "olmo2", "phi", "phi3", "qwen2", "qwen3", "seed_oss",
        "smollm3", "stablelm", "starcoder2",
    ),
    # windows: dense decoders whose layers differ, most of them in what they see
    "sliding": (),
    # experts: a mixture of experts in place of the MLP
    "mixture": (),
    # one compressed row per token
    "latent": (),
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
    "nested": (),
    # names and keys from before transformers had the model
    "legacy": (),
}
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
