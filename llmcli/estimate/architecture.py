"""The facts about a model that sizes follow from, whatever file they came from."""

from dataclasses import dataclass

from llmcli.estimate.layers import Layers


@dataclass(frozen=True, slots=True)
class Architecture:
    """A decoder-only language model.

    heads, kv_heads, head_dim: of its attention. params: embedding, decoder and head, tied ones once. linear_params:
    the weights of the decoder's linear layers, which is what bitsandbytes quantizes; linear_rows: their output
    channels. dtype: as its file names it, or None. positions: its context limit in tokens, None when the file gives
    none. quantization: how the checkpoint is quantized already.
    """

    model_type: str
    layers: Layers
    heads: int
    kv_heads: int
    head_dim: int
    params: int
    linear_params: int
    dtype: str | None
    positions: int | None
    quantization: str | None = None
    linear_rows: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def layer_count(self) -> int:
        """Number of decoder layers."""
        return sum(group.count for group in self.layers)
