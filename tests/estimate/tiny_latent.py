"""Tiny configs of the model types with latent attention, as config.json would hold them."""

_EXPERTS = {
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "n_shared_experts": 2,
    "n_group": 1,
    "topk_group": 1,
}
_INDEXER = {"index_n_heads": 2, "index_head_dim": 16, "index_topk": 8}
_OWN = {
    "deepseek_v2": {"topk_method": "greedy", "first_k_dense_replace": 1},
    "axk2": {"gated_norm_rank": 4},
    "hy_v4": {"hc_mult": 3},
}
DENSE = ("minicpm3", "youtu")
INDEXED = ("axk2", "deepseek_v32", "glm_moe_dsa", "hy_v4")
PLAIN = ("axk1", "deepseek_v2", "deepseek_v3", "glm4_moe_lite", "minicpm3", "mistral4", "sarvam_mla", "youtu")
TYPES = (*PLAIN, *INDEXED)


def tiny_latent(model_type: str, **changes: object) -> dict[str, object]:
    """Four layers, 4 heads on 64 channels, rows of 20 + 8 channels; 8 experts, 2 of them per token."""
    values: dict[str, object] = {
        "model_type": model_type,
        "num_hidden_layers": 4,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "vocab_size": 128,
        "max_position_embeddings": 512,
        "q_lora_rank": 28,
        "kv_lora_rank": 20,
        "qk_nope_head_dim": 12,
        "qk_rope_head_dim": 8,
        "v_head_dim": 10,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    values |= {} if model_type in DENSE else _EXPERTS
    values |= _INDEXER if model_type in INDEXED else {}
    return values | _OWN.get(model_type, {}) | changes
