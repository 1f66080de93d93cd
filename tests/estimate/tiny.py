"""Tiny configs of every dense model type, as config.json would hold them."""

from llmcli.estimate.families.dense import STYLES

_OWN = {
    "codegen": {"rotary_dim": 8},
    "gptj": {"rotary_dim": 8},
    "glm": {"pad_token_id": 0},
    "glm4": {"pad_token_id": 0},
    "mistral": {"sliding_window": None},
    "phi3": {"pad_token_id": 0},
    "smollm3": {"pad_token_id": 0},
}
FLAGS = (
    "attention_bias",
    "attention_out_bias",
    "mlp_bias",
    "use_bias",
    "use_qkv_bias",
    "qk_layernorm",
    "use_qk_norm",
    "use_parallel_residual",
    "multi_query",
)


def tiny(model_type: str, **changes: object) -> dict[str, object]:
    """Three layers, 4 heads on 64 channels; 2 KV heads and a head_dim of its own where the type reads them."""
    style = STYLES[model_type]
    values: dict[str, object] = {
        "model_type": model_type,
        "num_hidden_layers": 3,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "vocab_size": 128,
        "max_position_embeddings": 256,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    if style.mlp_size == "key":
        values["intermediate_size"] = 96
    if style.kv_heads == "key":
        values["num_key_value_heads"] = 2
    if style.explicit_head_dim and model_type != "phi":
        values["head_dim"] = 24
    return values | _OWN.get(model_type, {}) | changes
