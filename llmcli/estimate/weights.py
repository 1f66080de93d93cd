"""Bytes of a model's weights in memory, by number format and quantization, and by what decode reads of them."""

from dataclasses import dataclass, replace

from llmcli.estimate.architecture import Architecture
from llmcli.estimate.counts import NOTHING, Count
from llmcli.estimate.dtypes import BYTES
from llmcli.estimate.quants import INT4, NONE, Scheme
from llmcli.load_rules import INT4_GROUP

_BLOCK = 64
_SCALE = 4
_OWN_HEADS = {"dory"}
"""Types whose output head is a class of its own, which int4 leaves as it is."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes of weights, by what decode reads of them.

    dense: what every step reads; experts: routed ones; embedding: one that is apart from the head, of which a step
    reads no more than a row; towers: beside the language model, not read by decode. used: the share of the experts that
    one token passes through.
    """

    dense: int
    experts: int = 0
    embedding: int = 0
    towers: int = 0
    used: float = 1.0

    @property
    def total(self) -> int:
        """All of them are resident, whatever a step reads."""
        return self.dense + self.experts + self.embedding + self.towers

    def read(self, batch: int) -> int:
        """Bytes that one step of `batch` tokens reads.

        Every token takes its share of the experts on its own: 1 - (1 - share) ** batch of them are expected.
        """
        return self.dense + round(self.experts * (1 - (1 - self.used) ** batch))

    def scaled(self, total: int) -> "Weights":
        """The same parts of a checkpoint that takes `total` bytes in all."""
        share = total / self.total if self.total else 0.0
        experts, embedding, towers = (round(part * share) for part in (self.experts, self.embedding, self.towers))
        return replace(
            self, dense=total - experts - embedding - towers, experts=experts, embedding=embedding, towers=towers
        )


def weight_bytes(model: Architecture, quant: str, dtype: str) -> int:
    """Bytes of the language model in `dtype`, with the decoder's linear layers quantized as `--quant` says.

    bitsandbytes keeps a float32 scale per block of 64 weights of 4 bits (nf4 and fp4: 4.5 bits each in all, no double
    quantization; QLoRA, Dettmers et al. 2023, section 3), and one per output channel of int8 weights (LLM.int8,
    Dettmers et al. 2022, section 2.1). int4 keeps a scale and a zero point in `dtype` per group of weights, and makes
    the head 8-bit numbers with a scale per row, apart from an embedding that it was tied to. Embeddings, norms and
    biases stay in `dtype`, and so do the experts of mixtures, which are 3-D parameters in transformers.
    """
    weights = quantized_weights(model, quant, dtype)
    return weights.total - weights.towers


def quantized_weights(model: Architecture, quant: str, dtype: str) -> Weights:
    """The same by parts, and the towers beside the language model, whose linear layers are quantized as well."""
    whole, towers = _parts(model, None, BYTES[dtype]), model.vision or NOTHING
    if quant == NONE:
        return whole
    if quant == INT4:
        whole = _with_own_head(whole, model, BYTES[dtype])
    return replace(
        whole,
        dense=whole.dense - _saved(model.count, quant, BYTES[dtype]),
        towers=whole.towers - _saved(towers, quant, BYTES[dtype]),
    )


def unpacked_weights(model: Architecture, dtype: str) -> int:
    """Bytes of the copies of int4's weights that prompts are multiplied with, of towers as well."""
    return (model.count.even + (model.vision or NOTHING).even) * BYTES[dtype]


def scheme_weights(model: Architecture, scheme: Scheme | None, dtype: str) -> Weights:
    """Weights in `dtype`, but for what `scheme` quantizes; towers stay in `dtype`."""
    return _parts(model, scheme, BYTES[dtype])


def _saved(count: Count, quant: str, element: int) -> int:
    """Bytes that quantized linear layers and their scales take less than in numbers of `element` bytes."""
    linear = count.linear
    if quant == INT4:
        return count.even * element - count.even // 2 - 2 * element * (count.even // INT4_GROUP)
    packed, scales = (linear, count.rows) if quant == "int8" else (-(-linear // 2), -(-linear // _BLOCK))
    return linear * element - packed - _SCALE * scales


def _with_own_head(whole: Weights, model: Architecture, element: int) -> Weights:
    """With a head of 8-bit numbers and a scale per row, beside the embedding."""
    head = 0 if model.language_type in _OWN_HEADS else model.count.head
    if not head:
        return whole
    table = whole.embedding or model.count.tied * element
    return replace(whole, dense=whole.dense - head * element + head + model.count.outputs * element, embedding=table)


def _parts(model: Architecture, scheme: Scheme | None, element: int) -> Weights:
    count, embedding = model.count, input_embedding(model)
    rest = count.total - count.linear - count.experts - embedding
    return Weights(
        dense=_size(count.linear, scheme, scheme is not None and scheme.linear, element)
        + _size(rest, scheme, scheme is not None and scheme.others, element),
        experts=_size(count.experts, scheme, scheme is not None and scheme.experts, element),
        embedding=_size(embedding, scheme, scheme is not None and scheme.others, element),
        towers=(model.vision_params or 0) * element,
        used=1 - count.idle / count.experts if count.experts else 1.0,
    )


def _size(params: int, scheme: Scheme | None, quantized: bool, element: int) -> int:
    return params * element if scheme is None or not quantized else -(-round(params * scheme.bits) // 8)


def input_embedding(model: Architecture) -> int:
    """Parameters of an input embedding that is not the head as well, 0 where both are one tensor."""
    return 0 if model.count.tied == model.count.head else model.vocabulary * model.hidden
