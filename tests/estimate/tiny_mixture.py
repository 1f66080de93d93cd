"""Tiny configs of every mixture-of-experts type, as config.json would hold them."""

_COMMON = {
    "num_hidden_layers": 6,
    "hidden_size": 64,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "intermediate_size": 96,
    "vocab_size": 128,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_QWEN = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40}
_SHARED = {"shared_expert_intermediate_size": 56}
_LOCAL = {"num_local_experts": 6, "num_experts_per_tok": 2}
_DEEPSEEK = {"n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40, "n_shared_experts": 2}
_WINDOW = {"sliding_window": 16}
_OWN: dict[str, dict[str, object]] = {
    "afmoe": _QWEN | _WINDOW | {"num_shared_experts": 2, "num_dense_layers": 2},
    "aria_text": {"moe_num_experts": 6, "moe_topk": 2, "moe_num_shared_experts": 2},
    "beam": _QWEN | _WINDOW | {"n_group": 1, "topk_group": 1},
    "cohere2_moe": {"num_experts": 6, "num_experts_per_tok": 2} | _WINDOW,
    "doge": {"is_moe": True, "num_experts": 30, "num_experts_per_tok": 4},
    "dots1": _DEEPSEEK | {"first_k_dense_replace": 1},
    "ernie4_5_moe": {"moe_num_experts": 6, "moe_k": 2, "moe_intermediate_size": 40},
    "exaone_moe": _QWEN | _WINDOW | {"num_shared_experts": 2},
    "flex_olmo": {"num_experts": 6, "num_experts_per_tok": 2},
    "flint": _QWEN | _SHARED | _WINDOW,
    "glm4_moe": _DEEPSEEK,
    "gpt_oss": _LOCAL | _WINDOW,
    "granitemoe": _LOCAL,
    "granitemoe_swa": _LOCAL | _WINDOW | {"shared_intermediate_size": 56},
    "granitemoeshared": _LOCAL | {"shared_intermediate_size": 56},
    "hunyuan_v1_moe": {"num_experts": 6, "moe_topk": 2},
    "hy_v3": _QWEN | {"num_shared_experts": 2},
    "jetmoe": _LOCAL | {"kv_channels": 24},
    "kolibri1": _QWEN | _SHARED | _WINDOW,
    "laguna": _QWEN | _SHARED | _WINDOW,
    "llama4_text": {"num_local_experts": 6, "num_experts_per_tok": 1, "intermediate_size_mlp": 112}
    | {"attention_chunk_size": 16},
    "mellum": _QWEN | _WINDOW,
    "mimo_v2_flash": _DEEPSEEK | _WINDOW | {"v_head_dim": 16, "n_shared_experts": None},
    "minimax_m2": _LOCAL,
    "mixtral": _LOCAL,
    "olmoe": {"num_experts": 6, "num_experts_per_tok": 2, "head_dim": 8},
    "phimoe": _LOCAL | {"head_dim": 8},
    "qwen2_moe": _QWEN | _SHARED,
    "qwen3_moe": _QWEN,
    "sarvam_moe": _DEEPSEEK,
    "solar_open": _DEEPSEEK,
}
_DBRX = {
    "model_type": "dbrx",
    "n_layers": 2,
    "d_model": 64,
    "n_heads": 8,
    "vocab_size": 128,
    "max_seq_len": 256,
    "attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8},
    "ffn_config": {"ffn_hidden_size": 96, "moe_num_experts": 6, "moe_top_k": 2, "moe_jitter_eps": None},
}


def tiny(model_type: str, **changes: object) -> dict[str, object]:
    """Six layers of 64 channels, 8 heads, 2 KV heads; 6 experts, of which a token uses 2; windows of 16 tokens.

    A change to ... takes a key away.
    """
    base = _DBRX if model_type == "dbrx" else {"model_type": model_type} | _COMMON | _OWN[model_type]
    return {key: value for key, value in (base | changes).items() if value is not ...}


TYPES = (*sorted(_OWN), "dbrx")
