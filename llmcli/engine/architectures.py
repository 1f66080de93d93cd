"""What is known of model types beyond what transformers tells."""

from typing import Any

from llmcli.prefill_rules import CONTINUABLE, CPU_CHUNK, CUDA_CHUNK, MPS_CHUNK

_CHUNK_TOKENS = {"mps": MPS_CHUNK, "cuda": CUDA_CHUNK}
_CPU_CHUNK_TOKENS = (64, CPU_CHUNK)
_CPU_CHUNK_FLOPS = 2.7e11


def chunk_tokens(model_type: str, device_type: str, params: int, asked: int | None = None) -> int | None:
    """Prompt tokens per prefill chunk; None for a model type that prefills in one piece. asked: `--prefill-chunk`.

    A prefill can be cancelled between chunks, so on a CPU they get shorter as the model grows: 2 × params operations a
    token, down to a length below which reading the weights for every chunk would cost more than the arithmetic. The
    length never depends on measured time: the same prompt is always cut in the same places.
    """
    if model_type not in CONTINUABLE:
        return None
    if asked is not None:
        return asked
    if device_type in _CHUNK_TOKENS:
        return _CHUNK_TOKENS[device_type]
    least, most = _CPU_CHUNK_TOKENS
    affordable = _CPU_CHUNK_FLOPS / (2 * max(1, params))
    return min(most, max(least, 1 << int(affordable).bit_length() - 1 if affordable >= 1 else least))


def frequency_switch(config: Any) -> int | None:
    """The length in tokens past which the keys of all positions change, None for a model that has no such length.

    LongRoPE (https://arxiv.org/abs/2402.13753) rotates keys by other frequencies once a forward reaches beyond the
    original context, so keys from before and after do not go together: a prompt past it prefills in one piece.
    """
    parameters = getattr(config.get_text_config(decoder=True), "rope_parameters", None) or {}
    nested = [value for value in parameters.values() if isinstance(value, dict)]
    lengths = [
        values["original_max_position_embeddings"]
        for values in (parameters, *nested)
        if values.get("rope_type") == "longrope"
    ]
    return min(lengths, default=None)
