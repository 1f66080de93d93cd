"""Mixtures of experts with a cache of keys and values: attention, and experts in place of the MLP of some layers.

Each row was read from the model's class in transformers 5.24 and is proved against it in the tests: the number of
parameters, the part of them that bitsandbytes quantizes, and the size of the KV cache.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from llmcli.estimate.config import Config
from llmcli.estimate.experts import SHARED, Mixture, MixtureRule, in_all
from llmcli.estimate.facts import Blueprint
from llmcli.estimate.families import mixture_windows as windows
from llmcli.estimate.families.decoder import Style, sinks
from llmcli.estimate.families.mixture_build import build_mixture
from llmcli.estimate.families.mixture_parts import attention_gate, biased_gate, used_per_layer
from llmcli.estimate.families.mixture_shapes import DEEPSEEK, GLM4, OWN
from llmcli.estimate.sparse import after, but_first, by_end, by_step, by_step_but, by_type, listed
from llmcli.estimate.windows import every


@dataclass(frozen=True, slots=True)
class Row:
    """A model type. dense_width: the key for the width of its dense layers, where that is not intermediate_size."""

    style: Style
    mixture: MixtureRule
    dense_width: str | None = None


_BIASED = Style(qkv_bias="attention_bias", output_bias="attention_bias")
_NORMED = replace(_BIASED, qk_norm="head")
_GRANITE = Mixture(width="intermediate_size", shared_width="shared_intermediate_size", shared_joint=True)
_MIXTRAL = Mixture(width="intermediate_size")
_QWEN_SHARED = Mixture(shared_width="shared_expert_intermediate_size", shared_gate=True, sparse=by_step)

ROWS: Mapping[str, Row] = {
    "afmoe": Row(
        replace(_NORMED, norms=4, more=attention_gate, windows=every("global_attn_every_n_layers", 4)),
        Mixture(shared_number=SHARED, sparse=after("num_dense_layers"), linear_router=True, correction_bias=True),
    ),
    "aria_text": Row(_BIASED, Mixture(width="intermediate_size", shared_number=SHARED, shared_bias="mlp_bias")),
    "beam": Row(
        replace(_NORMED, norms=4, more=biased_gate, windows=windows.where(lambda i, n: (i + 1) % 6 > 0 and i < n - 1)),
        Mixture(sparse=by_type(but_first(3))),
    ),
    "cohere2_moe": Row(
        replace(_BIASED, norms=1, windows=windows.typed(windows.prefixed)),
        Mixture(width="intermediate_size", shared_number=SHARED, sparse=by_type(after("first_k_dense_replace"))),
        dense_width="prefix_dense_intermediate_size",
    ),
    "dots1": Row(replace(_NORMED, windows=windows.typed(windows.from_layer)), DEEPSEEK),
    "ernie4_5_moe": Row(
        Style(qkv_bias="use_bias", output_bias="use_bias", mlp_bias="use_bias", head_bias="use_bias"),
        Mixture(
            number=("moe_num_experts", "num_experts"),
            shared_number=SHARED,
            shared_bias="use_bias",
            correction_bias=True,
            sparse=by_end,
        ),
    ),
    "exaone_moe": Row(
        Style(qk_norm="head", windows=every("sliding_window_pattern", 4)),
        Mixture(shared_number=SHARED, sparse=by_type(after("first_k_dense_replace"))),
    ),
    "flex_olmo": Row(replace(_BIASED, qk_norm="heads"), _MIXTRAL),
    "flint": Row(
        replace(_NORMED, more=sinks, windows=windows.where(lambda i, n: i > 1 and i % 4 != 1 and i < n - 1)),
        Mixture(shared_width="shared_expert_intermediate_size", sparse=by_step_but((0, 1))),
    ),
    "glm4_moe": Row(GLM4, DEEPSEEK),
    "gpt_oss": Row(
        replace(_BIASED, more=sinks, windows=windows.where(lambda i, _: i % 2 == 0)),
        replace(_MIXTRAL, bias=True, router_bias=True),
    ),
    "granitemoe": Row(_BIASED, _MIXTRAL),
    "granitemoe_swa": Row(replace(_BIASED, more=sinks, windows=windows.where(lambda i, _: i % 4 > 0)), _GRANITE),
    "granitemoeshared": Row(_BIASED, _GRANITE),
    "hunyuan_v1_moe": Row(
        _NORMED,
        used_per_layer(
            Mixture(
                used=("moe_topk", "num_experts_per_tok"),
                width="intermediate_size",
                shared_width="intermediate_size",
                linear_router=True,
            )
        ),
    ),
    "hy_v3": Row(
        replace(_NORMED, mlp_bias="mlp_bias"),
        Mixture(shared_number=SHARED, shared_bias="mlp_bias", sparse=by_type(but_first(1))),
    ),
    "kolibri1": Row(
        Style(qk_norm="head", norms=4, mlp_size="4x", windows=windows.where(lambda i, _: (i + 1) % 5 > 0)),
        Mixture(shared_width="shared_expert_intermediate_size"),
    ),
    "llama4_text": Row(
        replace(_BIASED, windows=windows.typed(windows.chunks)),
        Mixture(
            width="intermediate_size",
            shared_width="intermediate_size",
            sparse=listed("moe_layers", "interleave_moe_layer_step"),
        ),
        dense_width="intermediate_size_mlp",
    ),
    "mellum": Row(replace(_NORMED, windows=windows.full_unless_typed), Mixture(sparse=by_type(in_all))),
    "minimax_m2": Row(Style(qk_norm="heads"), _MIXTRAL),
    "mixtral": Row(Style(), _MIXTRAL),
    "olmoe": Row(replace(_BIASED, qk_norm="heads"), _MIXTRAL),
    "phimoe": Row(replace(_BIASED, norm=2, head_bias="lm_head_bias"), _MIXTRAL),
    "qwen2_moe": Row(Style(qkv_bias="qkv_bias", windows=windows.typed(windows.alternate_if_flag)), _QWEN_SHARED),
    "qwen3_moe": Row(replace(_NORMED, windows=windows.typed(windows.all_if_flag)), Mixture(sparse=by_step)),
    "solar_open": Row(Style(qkv_bias="attention_bias", mlp_size="4x"), replace(DEEPSEEK, sparse=in_all)),
}

BUILDERS: Mapping[str, Callable[[Config], Blueprint]] = {
    **{
        model_type: partial(build_mixture, style=row.style, mixture=row.mixture, dense_width=row.dense_width)
        for model_type, row in ROWS.items()
    },
    **OWN,
}
