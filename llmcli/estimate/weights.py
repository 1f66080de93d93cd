"""Bytes of a model's weights in memory, by number format and quantization."""

from llmcli.estimate.architecture import Architecture
from llmcli.estimate.dtypes import BYTES
from llmcli.inference import Quant

_NF4_BLOCK = 64


def weight_bytes(model: Architecture, quant: Quant, dtype: str) -> int:
    """Bytes of all parameters in `dtype`; with nf4 the decoder's linear layers at 4 bit.

    bitsandbytes' nf4 keeps one float32 scale per block of 64 weights, 4.5 bits each in all (no double quantization;
    QLoRA, Dettmers et al. 2023, section 3). Embeddings, head, norms and biases stay in `dtype`.
    """
    if quant == "none":
        return model.params * BYTES[dtype]
    linear = model.linear_params
    packed = -(-linear // 2) + 4 * -(-linear // _NF4_BLOCK)
    return packed + (model.params - linear) * BYTES[dtype]
