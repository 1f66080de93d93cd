"""What llama.cpp and vLLM reserve for one forward: buffers for the most tokens that they compute at once."""

from llmcli.estimate.architecture import Architecture

VLLM_SEQUENCES = 256
_FLOAT32 = 4
_FLOAT16 = 2


def llama_cpp_buffer(model: Architecture, context: int, tokens: int) -> int:
    """Bytes of the graph that llama.cpp reserves for `tokens` (n_ubatch), each with an output: float32 logits.

    Beside them it takes the mask of flash attention. Layers reuse one set of buffers.
    """
    width = max(
        model.vocabulary + model.hidden,
        4 * model.hidden + 3 * model.intermediate,
        3 * model.hidden + 4 * model.heads * model.head_dim,
    )
    return tokens * width * _FLOAT32 + tokens * context * _FLOAT16


def vllm_profile(model: Architecture, element: int, tokens: int) -> int:
    """Bytes of vLLM's profiling forward: `tokens` (max_num_batched_tokens), then logits of 256 sequences."""
    used = max((layer.count.used for layer in model.layers), default=0)
    width = max(
        (4 + used) * model.hidden + 3 * model.intermediate,
        3 * model.hidden + 4 * model.heads * model.head_dim,
    )
    return max(tokens * width * element, VLLM_SEQUENCES * model.vocabulary * (element + _FLOAT32))
