"""The vision towers of Llama 3.2 Vision and of Llama 4.

Read in transformers 5.24: models/mllama/modeling_mllama.py and models/llama4/modeling_llama4.py.
"""

from llmcli.estimate.config import Config
from llmcli.estimate.counts import Count, linear, plain_mlp, tensor
from llmcli.estimate.towers.parts import layer_count, patch_weights, patches, plain_layer

_HIDDEN = ("hidden_size",)
_WIDTH = ("intermediate_size",)
_RATIOS = 8


def mllama(config: Config) -> Count:
    """MllamaVisionModel: layers for a tile, gated layers over all tiles, and embeddings per tile and aspect ratio."""
    hidden, width = config.needed(_HIDDEN), config.needed(_WIDTH)
    layer = linear(hidden, hidden) * 4 + plain_mlp(hidden, width, bias=True) + tensor(4 * hidden)
    layers = layer * layer_count(config) + (layer + tensor(2)) * config.size("num_global_layers", 8)
    positions, tiles = patches(config, 448, 14) + 1, config.size("max_num_tiles", 4)
    ratios = (len(said) if isinstance(said := config.values.get("supported_aspect_ratios"), list) else _RATIOS) + 1
    tiled = ratios * tiles * hidden * (positions + 2) + 3
    return tensor(hidden, patch_weights(config, 14) + 1 + positions + 4) + tensor(tiled) + layers


def llama4(config: Config) -> Count:
    """Llama4VisionModel: patches through a linear layer, and an adapter over shuffled pixels."""
    hidden, width = config.needed(_HIDDEN), config.needed(_WIDTH)
    layers = plain_layer(hidden, width) * layer_count(config)
    output = config.needed(("projector_output_dim",))
    adapter = linear(width, config.needed(("projector_input_dim",))) + linear(output, output)
    rows = 1 + patches(config, 448, 14) + 1 + 4
    return linear(patch_weights(config, 14), hidden) + tensor(hidden, rows) + layers + adapter
