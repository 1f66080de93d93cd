"""Tiny configs of recurrent and hybrid model types, as config.json would hold them."""

_BASE = {
    "hidden_size": 64,
    "vocab_size": 128,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_ATTENTION = {"num_attention_heads": 4, "num_key_value_heads": 2}
_DELTA = {
    "num_hidden_layers": 5,
    "head_dim": 24,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}
_EXPERTS = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
_SHARED = {"shared_expert_intermediate_size": 40}
_MAMBA = {"num_hidden_layers": 3, "state_size": 6, "conv_kernel": 4, "expand": 2}

_OWN = {
    "falcon_mamba": _MAMBA,
    "lara_mini": _ATTENTION | _DELTA | _EXPERTS | _SHARED | {"sliding_window": 8},
    "mamba": _MAMBA,
    "mamba2": _MAMBA | {"num_heads": 8, "head_dim": 16, "n_groups": 2},
    "olmo_hybrid": _ATTENTION | {"num_hidden_layers": 5, "intermediate_size": 96},
    "qwen3_5_moe_text": _ATTENTION | _DELTA | _EXPERTS | _SHARED,
    "qwen3_5_text": _ATTENTION | _DELTA | {"intermediate_size": 96},
    "qwen3_next": _ATTENTION | _DELTA | _EXPERTS | _SHARED | {"intermediate_size": 96},
}
TYPES = sorted(_OWN)


def tiny(model_type: str, **changes: object) -> dict[str, object]:
    """A few layers on 64 channels, with sizes that differ from each other."""
    return _BASE | _OWN[model_type] | {"model_type": model_type} | changes
