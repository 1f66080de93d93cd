"""What is known of model types beyond what transformers tells."""

CHUNKED_PREFILL = frozenset(
    {
        "cohere",
        "gemma",
        "gemma2",
        "gemma3_text",
        "glm",
        "gpt2",
        "gpt_neox",
        "granite",
        "llama",
        "mistral",
        "mixtral",
        "olmo2",
        "phi",
        "phi3",
        "qwen2",
        "qwen3",
        "qwen3_moe",
        "smollm3",
        "stablelm",
        "starcoder2",
    }
)
"""Model types that may continue a cache by several tokens.

The test suite proves the law for each: a tiny fp32 model answers the same whatever the chunks. In transformers 5.24 it
does not hold for some recurrent types, so any type that is not listed prefills in one piece.
"""

CHUNK_TOKENS = {"cpu": 256, "mps": 512, "cuda": 2048}
"""Prompt tokens per prefill chunk, by device type: short enough to cancel between, long enough to cost nothing."""
