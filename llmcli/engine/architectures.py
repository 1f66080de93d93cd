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

_CHUNK_TOKENS = {"mps": 512, "cuda": 2048}
_CPU_CHUNK_TOKENS = (64, 256)
_CPU_CHUNK_FLOPS = 2.7e11


def chunk_tokens(model_type: str, device_type: str, params: int) -> int | None:
    """Prompt tokens per prefill chunk; None for a model type that prefills in one piece.

    A prefill can be cancelled between chunks, so on a CPU they get shorter as the model grows: 2 × params operations a
    token, down to a length below which reading the weights for every chunk would cost more than the arithmetic. The
    length never depends on measured time: the same prompt is always cut in the same places.
    """
    if model_type not in CHUNKED_PREFILL:
        return None
    if device_type in _CHUNK_TOKENS:
        return _CHUNK_TOKENS[device_type]
    least, most = _CPU_CHUNK_TOKENS
    affordable = _CPU_CHUNK_FLOPS / (2 * max(1, params))
    return min(most, max(least, 1 << int(affordable).bit_length() - 1 if affordable >= 1 else least))
