"""Tiny configs of every dense model type, as config.json would hold them."""

from llmcli.estimate.families.registry import MODULE_OF

MODULES = ("dense", "gpt", "sliding", "gemma", "loops")
TYPES = sorted(model_type for model_type, module in MODULE_OF.items() if module in MODULES)
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
_ROPE = {kind: {"rope_type": "default", "rope_theta": 10000.0} for kind in ("full_attention", "sliding_attention")}
_SAME_HEADS = {"num_key_value_heads": None, "head_dim": None}
_GPT = _SAME_HEADS | {"intermediate_size": None}
_WINDOW = {"sliding_window": 16}
_OWN: dict[str, dict[str, object]] = {
    "biogpt": _SAME_HEADS,
    "bitnet": {"head_dim": 16},
    "bloom": _GPT,
    "codegen": _GPT | {"rotary_dim": 8},
    "cohere2": _WINDOW | {"pad_token_id": 0},
    "cohere_compass_text": {"pad_token_id": 0, "rope_parameters": _ROPE},
    "ctrl": _GPT | {"dff": 80},
    "cwm": _WINDOW | {"bos_token_id": 0},
    "dory": _WINDOW | {"num_hidden_layers": 6, "n_input_layers": 2, "n_output_layers": 1},
    "exaone4": _WINDOW | {"num_hidden_layers": 5},
    "falcon": _GPT,
    "gemma2": _WINDOW,
    "gemma3_text": _WINDOW | {"num_hidden_layers": 7, "rope_parameters": _ROPE},
    "gemma3n_text": _WINDOW
    | {
        "num_hidden_layers": 10,
        "vocab_size_per_layer_input": 100,
        "hidden_size_per_layer_input": 8,
        "laurel_rank": 12,
        "num_kv_shared_layers": 3,
    },
    "gemma4_text": _WINDOW
    | {
        "num_hidden_layers": 7,
        "vocab_size_per_layer_input": 100,
        "hidden_size_per_layer_input": 8,
        "global_head_dim": 32,
    },
    "gemma4_unified_text": _WINDOW | {"num_hidden_layers": 7, "global_head_dim": 32},
    "glm": {"pad_token_id": 0},
    "glm4": {"pad_token_id": 0},
    "gpt-sw3": _GPT,
    "gpt2": _GPT,
    "gpt_bigcode": _GPT,
    "gpt_neo": _SAME_HEADS | {"attention_types": [[["global", "local", "global"], 1]], "window_size": 16},
    "gpt_neox": _SAME_HEADS,
    "gpt_neox_japanese": _GPT | {"intermediate_multiple_size": 3},
    "gptj": _GPT | {"rotary_dim": 8},
    "granite_swa": _WINDOW | {"num_hidden_layers": 6},
    "helium": {"head_dim": 16},
    "hrm_text": {"num_key_value_heads": None, "num_hidden_layers": 2, "H_cycles": 3, "L_cycles": 2},
    "ministral": _WINDOW,
    "mistral": {"sliding_window": None},
    "modernbert-decoder": _SAME_HEADS | {"local_attention": 32, "num_hidden_layers": 5, "pad_token_id": 0},
    "mpt": _GPT | {"max_position_embeddings": None},
    "olmo3": _WINDOW | {"num_hidden_layers": 5, "rope_parameters": _ROPE, "pad_token_id": 0},
    "openai-gpt": _GPT,
    "opt": _SAME_HEADS | {"intermediate_size": None, "ffn_dim": 96, "pad_token_id": 1},
    "persimmon": _SAME_HEADS,
    "phi": {"head_dim": None},
    "phi3": {"pad_token_id": 0},
    "smollm3": {"pad_token_id": 0},
    "stablelm": {"head_dim": None},
    "vaultgemma": _WINDOW,
    "xglm": {
        "hidden_size": None,
        "num_hidden_layers": None,
        "num_attention_heads": None,
        "d_model": 64,
        "num_layers": 3,
        "attention_heads": 4,
        "ffn_dim": 96,
    }
    | _GPT,
}


def tiny(model_type: str, **changes: object) -> dict[str, object]:
    """A few layers, 4 heads on 64 channels; 2 KV heads and a head_dim of its own where the type reads them."""
    values: dict[str, object] = {
        "model_type": model_type,
        "num_hidden_layers": 3,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 24,
        "intermediate_size": 96,
        "vocab_size": 128,
        "max_position_embeddings": 256,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    own = _OWN.get(model_type, {})
    left_out = {key for key, value in own.items() if value is None and key in values}
    return {key: value for key, value in (values | own).items() if key not in left_out} | changes
