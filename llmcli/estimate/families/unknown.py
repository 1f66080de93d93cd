"""A model type that is not known, with the fields of ordinary attention: an upper bound of what its cache holds."""

from dataclasses import replace

from llmcli.estimate import config as keys
from llmcli.estimate.config import Config, shown
from llmcli.estimate.counts import Count, gated_mlp, linear, routed_experts, tensor
from llmcli.estimate.facts import Attention, Blueprint, Layer
from llmcli.estimate.families.heads import head_dim_of
from llmcli.estimate.families.self_attention import SelfAttention
from llmcli.estimate.families.stack import stack
from llmcli.estimate.refusals import recurrent_key, refuse

_LAYERS = (*keys.LAYERS, "num_transformer_layers")
_HIDDEN = (*keys.HIDDEN, "model_dim", "hidden_dim", "dim")
_KV_HEADS = (*keys.KV_HEADS, "multi_query_group_num", "n_kv_heads", "kv_n_heads")
_MORE_KV_HEADS = ("num_global_key_value_heads", "swa_num_key_value_heads")
_HEAD_DIMS = ("head_dim", "kv_channels", "attention_head_dim", "global_head_dim", "swa_head_dim", "qk_head_dim")
_VALUE_DIMS = ("v_head_dim", "swa_v_head_dim", "value_head_dim")
_WIDTH = (*keys.INTERMEDIATE, "ffn_hidden_size", "ff_intermediate_size", "n_inner", "mlp_dim", "hidden_dim_ff")
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_USED = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k")
_EXPERT_WIDTH = ("moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size")
_SHARED = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
_LATENT = ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
_WINDOWS = ("layer_types", "sliding_window", "attention_chunk_size")
_NORMS = 4


def build_unknown(config: Config, model_type: str) -> Blueprint:
    """Full attention in all layers with all the KV heads that the config gives, a gated MLP or experts in each.

    Raises ModelError that names recurrent layers, and fields that are missing or wrong.
    """
    if found := recurrent_key(config):
        reason = f"this model type is not known, and has recurrent layers ({found[0]} = {shown(found[1])})"
        raise refuse(config.where, model_type, reason)
    if config.values.get("kv_lora_rank"):
        return _latent(config, model_type)
    for aliases in (_LAYERS, _HIDDEN, keys.HEADS, keys.VOCABULARY):
        if config.count(aliases) is None:
            raise refuse(config.where, model_type, f"this model type is not known, and {aliases[0]} is missing")
    return _attention(config, model_type)


def _latent(config: Config, model_type: str) -> Blueprint:
    """Multi-head latent attention without windows: as DeepSeek-V3 has it, or as V3.2 where there is an indexer."""
    from llmcli.estimate.families.latent import STYLES
    from llmcli.estimate.families.latent_decoder import build

    for key in _LATENT:
        if config.count((key,)) is None:
            raise refuse(config.where, model_type, f"this model type is not known, and has MLA without {key}")
    near = "deepseek_v32" if config.count(("index_head_dim",)) else "deepseek_v3"
    style = replace(STYLES[near], query_rank_needed=False)
    blueprint = build(config.changed(dict.fromkeys(_WINDOWS)), style)
    reason = f"the model type {model_type} is not known: taken as {near}, one latent row per token"
    return replace(blueprint, inexact=(*blueprint.inexact, reason))


def _attention(config: Config, model_type: str) -> Blueprint:
    hidden, heads = config.needed(_HIDDEN), config.needed(keys.HEADS)
    number = config.needed(_LAYERS, limit=keys.MAX_LAYERS)
    kv_heads = max(_most(config, _MORE_KV_HEADS), config.count(_KV_HEADS) or heads)
    key_dim = _most(config, _HEAD_DIMS) or head_dim_of(config, hidden, heads, explicit=False)
    value_dim = _most(config, _VALUE_DIMS) or key_dim
    mlp, width = _mlp(config, hidden)
    projections = linear(hidden, heads * key_dim) + linear(hidden, kv_heads * key_dim)
    projections += linear(hidden, kv_heads * value_dim) + linear(heads * value_dim, hidden)
    layer = Layer((Attention(kv_heads, key_dim, value_dim),), projections + mlp + tensor(_NORMS * hidden))
    taken = "full attention in every layer, and parameters as Llama has them"
    reason = f"upper bound: the model type {model_type} is not known; taken as {taken}"
    first = SelfAttention(heads, kv_heads, key_dim)
    return stack(config.changed({keys.HIDDEN[0]: hidden}), (layer,) * number, width, first, inexact=(reason,))


def _most(config: Config, names: tuple[str, ...]) -> int:
    return max(config.count((name,)) or 0 for name in names)


def _mlp(config: Config, hidden: int) -> tuple[Count, int]:
    """The experts or the MLP of a layer, and the channels that one token passes through."""
    width = config.count(_WIDTH) or 4 * hidden
    number = config.count(_EXPERTS, least=0) or 0
    if number < 2:
        return gated_mlp(hidden, width), width
    each, used = config.count(_EXPERT_WIDTH) or width, min(number, config.count(_USED) or number)
    shared = (config.count(_SHARED, least=0) or 0) * each
    experts = routed_experts(number, used, gated_mlp(hidden, each).total) + tensor(hidden, number)
    return experts + gated_mlp(hidden, shared), used * each + shared
