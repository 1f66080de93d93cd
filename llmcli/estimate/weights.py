"""Bytes of a model's weights in memory, by number format and quantization."""

from llmcli.estimate.architecture import Architecture
from llmcli.estimate.dtypes import BYTES
from llmcli.inference import Quant

_BLOCK = 64
_SCALE = 4


def weight_bytes(model: Architecture, quant: Quant, dtype: str) -> int:
    """Bytes of all parameters in `dtype`, with the decoder's linear layers quantized.

    bitsandbytes keeps a float32 scale per block of 64 weights of 4 bits (nf4 and fp4: 4.5 bits each in all, no double
    quantization; QLoRA, Dettmers et al. 2023, section 3), and one per output channel of int8 weights (LLM.int8,
    Dettmers et al. 2022, section 2.1). Embeddings, head, norms and biases stay in `dtype`.
    """
    if quant == "none":
        return model.params * BYTES[dtype]
    linear = model.linear_params
    packed, scales = (linear, model.linear_rows) if quant == "int8" else (-(-linear // 2), -(-linear // _BLOCK))
    return packed + _SCALE * scales + (model.params - linear) * BYTES[dtype]
