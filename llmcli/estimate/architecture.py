"""The facts about a model that sizes follow from, whatever file they came from."""

from dataclasses import dataclass

from llmcli.estimate.counts import NOTHING, Count
from llmcli.estimate.facts import Layer


@dataclass(frozen=True, slots=True)
class Architecture:
    """A decoder-only language model, or the language model in a multimodal one.

    layers: what each layer keeps, in order. count: parameters of embedding, decoder and head, tied ones once.
    decoder_type: the model type of the language model, where it stands in a multimodal one of another type.
    vision: the towers beside it, None where they are not known. heads, kv_heads, head_dim: of its first
    attention layer, 0 where it has none. hidden, intermediate, vocabulary: widths in channels. dtype: as its file names
    it, or None. positions: its context limit in tokens, None when the file gives none. quantization: how the checkpoint
    is quantized already. inexact: why sizes are near the truth, or above it, instead of equal to it.
    """

    model_type: str
    layers: tuple[Layer, ...]
    count: Count
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    intermediate: int
    vocabulary: int
    dtype: str | None
    positions: int | None
    vision: Count | None = NOTHING
    decoder_type: str = ""
    quantization: str | None = None
    inexact: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def language_type(self) -> str:
        """The model type of the language model, which is what engines know it by."""
        return self.decoder_type or self.model_type

    @property
    def params(self) -> int:
        """Parameters of the language model."""
        return self.count.total

    @property
    def active_params(self) -> int:
        """Parameters that one token's forward uses."""
        return self.count.active

    @property
    def vision_params(self) -> int | None:
        """Parameters of the towers beside the language model, None where they are not known."""
        return None if self.vision is None else self.vision.total

    @property
    def linear_params(self) -> int:
        """Weights of the decoder's linear layers, which is what bitsandbytes quantizes."""
        return self.count.linear

    @property
    def layer_count(self) -> int:
        """Number of decoder layers."""
        return len(self.layers)
