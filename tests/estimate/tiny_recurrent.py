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
_HYBRID_MAMBA = {"num_hidden_layers": 4, "mamba_d_state": 6, "mamba_d_conv": 4, "mamba_expand": 2}
_HYBRID_MAMBA2 = _HYBRID_MAMBA | {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 2}

_LATENT = {
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "kv_lora_rank": 20,
    "q_lora_rank": None,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "intermediate_size": 96,
    "num_experts": 8,
    "num_experts_per_token": 2,
    "moe_intermediate_size": 24,
    "num_shared_experts": 1,
    "num_expert_group": 1,
    "topk_group": 1,
    "model_max_length": 256,
}

_OWN = {
    "bailing_hybrid": _LATENT
    | {"num_hidden_layers": 5, "head_dim": 24, "layer_group_size": 3, "first_k_dense_replace": 1},
    "bamba": _ATTENTION | _HYBRID_MAMBA2 | {"intermediate_size": 96, "attn_layer_indices": [1, 3]},
    "falcon_h1": _ATTENTION | _HYBRID_MAMBA2 | {"intermediate_size": 96, "mamba_d_ssm": 80, "mamba_d_head": 10},
    "falcon_mamba": _MAMBA,
    "granitemoehybrid": _ATTENTION
    | _HYBRID_MAMBA2
    | {
        "intermediate_size": 24,
        "shared_intermediate_size": 40,
        "num_local_experts": 6,
        "num_experts_per_tok": 2,
        "layer_types": ["mamba", "attention", "linear_attention", "full_attention"],
    },
    "inkling_text": {
        "num_hidden_layers": 4,
        "local_layer_ids": [0, 1, 3],
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 24,
        "swa_num_attention_heads": 6,
        "swa_num_key_value_heads": 2,
        "swa_head_dim": 16,
        "sliding_window_size": 8,
        "d_rel": 5,
        "rel_extent": 12,
        "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
        "intermediate_size": 96,
        "moe_intermediate_size": 24,
        "n_routed_experts": 6,
        "num_experts_per_tok": 2,
        "n_shared_experts": 2,
    },
    "jamba": _ATTENTION
    | _HYBRID_MAMBA
    | {
        "intermediate_size": 96,
        "mamba_dt_rank": 5,
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "attn_layer_period": 3,
        "attn_layer_offset": 1,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
    },
    "kimi_linear": _LATENT
    | {
        "num_hidden_layers": 5,
        "linear_attn_config": {
            "full_attn_layers": [2, 5],
            "kda_layers": [1, 3, 4],
            "num_heads": 2,
            "head_dim": 24,
            "short_conv_kernel_size": 4,
        },
    },
    "lara_mini": _ATTENTION | _DELTA | _EXPERTS | _SHARED | {"sliding_window": 8},
    "lfm2": _ATTENTION | {"num_hidden_layers": 4, "intermediate_size": 96, "conv_L_cache": 3, "full_attn_idxs": [1, 2]},
    "lfm2_moe": _ATTENTION
    | _EXPERTS
    | {
        "num_hidden_layers": 4,
        "intermediate_size": 96,
        "num_dense_layers": 1,
        "layer_types": ["conv", "full_attention", "conv", "conv"],
    },
    "lfm3": _ATTENTION | {"num_hidden_layers": 5, "intermediate_size": 96, "head_dim": 24, "sliding_window": 8},
    "mamba": _MAMBA,
    "mamba2": _MAMBA | {"num_heads": 8, "head_dim": 16, "n_groups": 2},
    "minimax": _ATTENTION
    | {
        "num_hidden_layers": 3,
        "head_dim": 24,
        "intermediate_size": 40,
        "num_local_experts": 6,
        "num_experts_per_tok": 2,
        "block_size": 4,
    },
    "nemotron_h": _ATTENTION
    | {
        "hybrid_override_pattern": "ME*-M",
        "head_dim": 24,
        "intermediate_size": 96,
        "ssm_state_size": 6,
        "mamba_num_heads": 8,
        "mamba_head_dim": 12,
        "n_groups": 2,
        "conv_kernel": 4,
        "n_routed_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 24,
        "moe_shared_expert_intermediate_size": 40,
    },
    "olmo_hybrid": _ATTENTION | {"num_hidden_layers": 5, "intermediate_size": 96},
    "qwen3_5_moe_text": _ATTENTION | _DELTA | _EXPERTS | _SHARED,
    "qwen3_5_text": _ATTENTION | _DELTA | {"intermediate_size": 96},
    "qwen3_next": _ATTENTION | _DELTA | _EXPERTS | _SHARED | {"intermediate_size": 96},
    "qwen4_exp_text": _ATTENTION
    | _DELTA
    | _EXPERTS
    | _SHARED
    | {
        "head_dim": 16,
        "hc_count": 3,
        "hc_lowrank": 10,
        "indexer_n_heads": 2,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 20,
        "indexer_budget": 4,
        "indexer_compress_ratio": 2,
    },
    "recurrent_gemma": {
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "intermediate_size": 96,
        "lru_width": 80,
        "attention_window_size": 8,
        "conv1d_width": 4,
    },
    "rwkv": {"num_hidden_layers": 3, "intermediate_size": 96, "context_length": 256},
    "xlstm": {
        "num_hidden_layers": 2,
        "num_blocks": 2,
        "hidden_size": 128,
        "embedding_dim": 128,
        "num_heads": 4,
        "ffn_round_up_to_multiple_of": 16,
    },
    "zamba": _HYBRID_MAMBA
    | {
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "attention_head_dim": 32,
        "intermediate_size": 96,
        "n_mamba_heads": 2,
        "mamba_dt_rank": 5,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
    },
    "zamba2": _HYBRID_MAMBA
    | {
        "num_hidden_layers": 6,
        "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid", "hybrid", "mamba"],
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "intermediate_size": 96,
        "n_mamba_heads": 4,
        "mamba_ngroups": 2,
        "num_mem_blocks": 2,
        "adapter_rank": 7,
    },
    "zaya": _ATTENTION
    | {
        "num_hidden_layers": 3,
        "head_dim": 24,
        "num_experts": 6,
        "moe_intermediate_size": 24,
        "router_hidden_size": 10,
        "cca_time0": 3,
        "cca_time1": 2,
        "sliding_window": 8,
        "layer_types": ["hybrid", "hybrid_sliding", "hybrid"],
    },
}
TYPES = sorted(_OWN)
FLAGS = (
    "add_bias_linear",
    "attention_bias",
    "conv_bias",
    "mamba_conv_bias",
    "mamba_proj_bias",
    "mamba_rms_norm",
    "mlp_bias",
    "projectors_bias",
    "use_attention_gate",
    "use_bias",
    "use_conv_bias",
    "use_sandwich_norm",
    "use_shared_attention_adapter",
    "lm_head_bias",
)


def tiny(model_type: str, **changes: object) -> dict[str, object]:
    """A few layers on 64 channels, with sizes that differ from each other."""
    return _BASE | _OWN[model_type] | {"model_type": model_type} | changes
