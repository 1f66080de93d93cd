"""How a prompt is read: in pieces, or at once."""

CUDA_CHUNK = 2048
"""Prompt tokens per forward on CUDA, for the model types that may read a prompt in pieces; no device reads more."""

CPU_CHUNK = 256
"""The most prompt tokens per forward on a CPU, for the same types."""

MPS_CHUNK = 512
"""Prompt tokens per forward on Metal, for the same types."""

CONTINUABLE = frozenset(
    {
        "apertus",
        "arcee",
        "cohere",
        "cohere2",
        "deepseek_v2",
        "deepseek_v3",
        "ernie4_5",
        "exaone4",
        "falcon",
        "gemma",
        "gemma2",
        "gemma3",
        "gemma3_text",
        "gemma4",
        "gemma4_text",
        "glm",
        "glm4",
        "glm4_moe",
        "gpt2",
        "gpt_neox",
        "gpt_oss",
        "granite",
        "granitemoe",
        "hunyuan_v1_dense",
        "llama",
        "ministral",
        "ministral3",
        "mistral",
        "mixtral",
        "nemotron",
        "olmo",
        "olmo2",
        "olmo3",
        "olmoe",
        "phi",
        "phi3",
        "phimoe",
        "qwen2",
        "qwen2_moe",
        "qwen3",
        "qwen3_moe",
        "seed_oss",
        "smollm3",
        "stablelm",
        "starcoder2",
    }
)
"""Model types whose cache may be continued by several tokens, and cropped: they prefill in chunks and reuse prefixes.

The test suite proves both laws for each: a tiny fp32 model answers the same whatever the chunks, and the same whether
it continues the cache of an earlier request or not. In transformers 5.24 they do not hold for some recurrent types, so
any type that is not listed prefills in one piece and reuses nothing.
"""
