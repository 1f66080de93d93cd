"""What a forward of a model costs: operations of a prefill, bytes of K and V."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmcli.estimate.config import Config
from llmcli.estimate.engines.transformers import TRANSFORMERS
from llmcli.estimate.from_config import from_config
from llmcli.estimate.layers import Layers, steady_bytes


@dataclass(frozen=True, slots=True)
class Shape:
    """linear, head: weights of the decoder's linear layers, and of the head. attention: query channels of all layers.

    vocabulary: ids. layers: what K and V take in 16 bit.
    """

    linear: int
    head: int
    attention: int
    vocabulary: int
    layers: Layers

    def prefill_flops(self, tokens: int) -> int:
        """Of a prompt whose head runs once: two per weight and token, and causal attention over half of the square."""
        return 2 * self.linear * tokens + 2 * self.head + 2 * self.attention * tokens**2

    def kv_bytes(self, tokens: int) -> int:
        """Bytes of K and V of one sequence, in 16 bit."""
        return steady_bytes(self.layers, tokens)


def shape_of(config: dict[str, Any], name: str = "config.json") -> Shape:
    """The shape of the model that a config describes."""
    model = from_config(Config(name, config))
    return Shape(
        linear=model.linear_params,
        head=model.vocabulary * model.hidden,
        attention=model.layer_count * model.heads * model.head_dim,
        vocabulary=model.vocabulary,
        layers=TRANSFORMERS.storage(model, TRANSFORMERS.kv_format("bfloat16"), "bfloat16"),
    )


def shape_at(directory: Path) -> Shape:
    """The shape of the model in a directory."""
    return shape_of(json.loads((directory / "config.json").read_text(encoding="utf-8")), str(directory))
