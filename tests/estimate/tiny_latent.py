"""Tiny configs of the model types with latent attention or an indexer, as config.json would hold them."""

EXPERTS = {
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "n_shared_experts": 2,
    "n_group": 1,
    "topk_group": 1,
}
INDEXER = {"index_n_heads": 2, "index_head_dim": 16, "index_topk": 8}
TOKENS = {"vocab_size": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "max_position_embeddings": 512}
DENSE = ("minicpm3", "youtu")
INDEXED = ("axk2", "deepseek_v32", "glm_moe_dsa", "hy_v4")
PLAIN = ("axk1", "deepseek_v2", "deepseek_v3", "glm4_moe_lite", "minicpm3", "mistral4", "sarvam_mla", "youtu")

_LATENT = {
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "q_lora_rank": 28,
    "kv_lora_rank": 20,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 8,
    "v_head_dim": 10,
}
_OWN = {
    "deepseek_v2": {"topk_method": "greedy", "first_k_dense_replace": 1},
    "axk2": {"gated_norm_rank": 4},
    "hy_v4": {"hc_mult": 3},
}
DOTS3 = {
    "model_type": "dots3_note_text",
    **_LATENT,
    **EXPERTS,
    **INDEXER,
    **TOKENS,
    "sliding_window": 16,
    "swa_num_attention_heads": 2,
    "swa_num_key_value_heads": 2,
    "swa_q_lora_rank": 18,
    "swa_kv_lora_rank": 24,
    "swa_head_dim": 24,
    "swa_qk_nope_head_dim": 14,
    "swa_v_head_dim": 12,
    "shared_experts_intermediate_size": 20,
}
LONGCAT = {
    "model_type": "longcat_flash",
    **{key: value for key, value in _LATENT.items() if key not in ("num_hidden_layers", "intermediate_size")},
    **TOKENS,
    "num_layers": 2,
    "head_dim": 8,
    "ffn_hidden_size": 96,
    "expert_ffn_hidden_size": 24,
    "n_routed_experts": 8,
    "zero_expert_num": 3,
    "moe_topk": 2,
}
MINIMAX_M3 = {
    "model_type": "minimax_m3_vl_text",
    **TOKENS,
    "num_hidden_layers": 3,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "rotary_dim": 16,
    "intermediate_size": 24,
    "dense_intermediate_size": 80,
    "shared_intermediate_size": 20,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "index_n_heads": 2,
    "index_head_dim": 16,
    "index_block_size": 8,
    "index_topk_blocks": 2,
    "layer_types": ["full_attention", "minimax_m3_sparse", "minimax_m3_sparse"],
    "mlp_layer_types": ["dense", "sparse", "sparse"],
}
DEEPSEEK_V4 = {
    "model_type": "deepseek_v4",
    **TOKENS,
    **INDEXER,
    "num_hidden_layers": 5,
    "hidden_size": 64,
    "moe_intermediate_size": 24,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "q_lora_rank": 28,
    "num_experts_per_tok": 2,
    "n_routed_experts": 8,
    "sliding_window": 16,
    "o_groups": 2,
    "o_lora_rank": 12,
    "hc_mult": 2,
    "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 32},
    "layer_types": [
        "sliding_attention",
        "heavily_compressed_attention",
        "compressed_sparse_attention",
        "heavily_compressed_attention",
        "compressed_sparse_attention",
    ],
}


def tiny_latent(model_type: str, **changes: object) -> dict[str, object]:
    """Four layers, 4 heads on 64 channels, rows of 20 + 8 channels; 8 experts, 2 of them per token."""
    values: dict[str, object] = {"model_type": model_type, **_LATENT, **TOKENS}
    values |= {} if model_type in DENSE else EXPERTS
    values |= INDEXER if model_type in INDEXED else {}
    return values | _OWN.get(model_type, {}) | changes


def without(values: dict[str, object], *keys: str) -> dict[str, object]:
    """The same config without some keys."""
    return {key: value for key, value in values.items() if key not in keys}
