"""How many numbers per token a forward of transformers holds at its largest moment, by model type.

Counted in the model classes of transformers 5.24 on the meta device, everything alive at once, cache and weights apart.
A decoder layer holds the residual stream, what went into the forward, the normed input and one sum (4 × hidden), and
in the MLP: gate, gate after its activation, and their product with the third projection's input (3 × intermediate).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from llmcli.estimate.architecture import Architecture


@dataclass(frozen=True, slots=True)
class Factors:
    """Numbers per token.

    hidden, mlp: per channel of the stream and of the MLP, in the MLP; queries: per channel of all attention heads
    together, in attention. inside, routed: per channel inside each expert and of each expert's output, in a mixture.
    all_experts: each expert computes every token, whether it is routed there or not. score_bytes: per attention score,
    where a class has no fused attention and keeps all scores; 0 where it has.
    """

    hidden: int = 4
    mlp: int = 3
    queries: int = 4
    inside: int = 4
    routed: int = 6
    all_experts: bool = False
    score_bytes: int = 0


_FUSED = Factors(mlp=4)
_NORMED_HEADS = Factors(queries=5)
_FLOAT_ROTATION = Factors(queries=7)

FACTORS: Mapping[str, Factors] = {
    "bloom": Factors(score_bytes=14),
    "codegen": Factors(mlp=4, queries=8),
    "cohere": Factors(queries=13),
    "cohere2": Factors(queries=11),
    "ernie4_5": _FLOAT_ROTATION,
    "exaone4": Factors(hidden=3, queries=5),
    "gemma2": Factors(score_bytes=10),
    "gemma3": _NORMED_HEADS,
    "gemma3_text": _NORMED_HEADS,
    "glm": _FUSED,
    "glm4": Factors(mlp=4, queries=5),
    "gpt2": Factors(mlp=5, queries=6),
    "gpt_bigcode": Factors(mlp=2, queries=5),
    "gpt_neox": Factors(mlp=2, queries=6),
    "gpt_oss": Factors(inside=9, score_bytes=6),
    "gptj": Factors(mlp=4, queries=6),
    "granitemoe": Factors(routed=4),
    "hunyuan_v1_dense": _NORMED_HEADS,
    "llama4": Factors(routed=3, all_experts=True),
    "llama4_text": Factors(routed=3, all_experts=True),
    "olmo": _FLOAT_ROTATION,
    "olmo2": Factors(hidden=3, queries=7),
    "olmo3": Factors(hidden=3, queries=7),
    "phi": Factors(mlp=4, queries=6),
    "phi3": Factors(mlp=4, queries=5),
    "qwen2_moe": Factors(hidden=5, routed=4),
    "qwen3": _NORMED_HEADS,
    "qwen3_moe": Factors(queries=5, routed=4),
    "qwen3_vl_moe_text": Factors(queries=5, routed=4),
    "qwen3_vl_text": _NORMED_HEADS,
    "stablelm": Factors(hidden=6, queries=7),
    "starcoder2": Factors(mlp=2),
}
"""ALiBi (bloom), softcaps (gemma2) and sinks (gpt_oss) leave no fused attention, but where a special kernel is."""

USUAL = Factors()


def factors_of(model: Architecture) -> Factors:
    """Those of its decoder's type, or those of a Llama."""
    return FACTORS.get(model.decoder_type or model.model_type, USUAL)
