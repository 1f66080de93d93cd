"""Language models that stand only inside a multimodal one: dense ones, and those with a mixture of experts.

Each row was read from the model's class in transformers 5.24 and is proved against it in the tests.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from llmcli.estimate.experts import SHARED, Mixture, MixtureRule
from llmcli.estimate.families.decoder import Style, build
from llmcli.estimate.families.ernie_vl import build_ernie_vl
from llmcli.estimate.families.mixture_build import build_mixture
from llmcli.estimate.families.mllama import build_mllama
from llmcli.estimate.sparse import after, by_step
from llmcli.estimate.windows import cache_rule, from_flag

_QWEN2 = Style(explicit_head_dim=False, qkv_bias=True, windows=from_flag)
_QWEN3 = Style(qkv_bias="attention_bias", output_bias="attention_bias", qk_norm="head", windows=cache_rule)
_GLM = Style(explicit_head_dim=False, qkv_bias=True, norms=4)

STYLES: Mapping[str, Style] = {
    "cosmos3_edge_text": Style(qkv_bias="attention_bias", output_bias="attention_bias", gated_mlp=False),
    "emu3_text_model": Style(qkv_bias="attention_bias", output_bias="attention_bias", mlp_bias="mlp_bias"),
    "glm4v_text": _GLM,
    "glm_ocr_text": replace(_GLM, explicit_head_dim=True, qkv_bias=False),
    "granite_docling_text": Style(qkv_bias="attention_bias", output_bias="attention_bias", mlp_bias="mlp_bias"),
    "paddleocr_vl_text": Style(qkv_bias="use_bias", output_bias="use_bias", mlp_bias="use_bias"),
    "qwen2_5_omni_text": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen3_vl_text": _QWEN3,
}


MIXTURES: Mapping[str, tuple[Style, MixtureRule]] = {
    "glm4v_moe_text": (
        Style(qkv_bias="attention_bias"),
        Mixture(
            number=("n_routed_experts", "num_local_experts"),
            shared_number=SHARED,
            sparse=after("first_k_dense_replace"),
        ),
    ),
    "qwen3_omni_moe_text": (_QWEN3, Mixture(sparse=by_step)),
    "qwen3_vl_moe_text": (_QWEN3, Mixture(sparse=by_step)),
}


BUILDERS = {
    **{model_type: partial(build, style=style) for model_type, style in STYLES.items()},
    **{
        model_type: partial(build_mixture, style=style, mixture=mixture)
        for model_type, (style, mixture) in MIXTURES.items()
    },
    "ernie4_5_vl_moe_text": build_ernie_vl,
    "mllama_text_model": build_mllama,
}
