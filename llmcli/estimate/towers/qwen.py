"""The vision towers of Qwen-VL and of GLM-V: patches of two frames, and a merger into the language model's channels.

Read in transformers 5.24: models/qwen2_vl, qwen2_5_vl, qwen3_vl, qwen3_5 and glm4v, modeling_*.py.
"""

from llmcli.estimate.config import Config
from llmcli.estimate.counts import Count, gated_mlp, linear, plain_mlp, tensor
from llmcli.estimate.towers.parts import layer_count, patch_weights, patches, two_layers

_HIDDEN = ("hidden_size",)
_WIDTH = ("intermediate_size",)
_OUTPUT = ("out_hidden_size",)


def _patches(config: Config, patch: int) -> int:
    return patch_weights(config, patch, "in_channels", config.size("temporal_patch_size", 2))


def _merged(config: Config, hidden: int) -> int:
    return hidden * config.size("spatial_merge_size", 2) ** 2


def qwen2(config: Config) -> Count:
    """Qwen2VisionTransformerPretrainedModel: `embed_dim` channels inside, `hidden_size` out."""
    inside, output = config.needed(("embed_dim",)), config.needed(_HIDDEN)
    width = int(inside * (config.number(("mlp_ratio",)) or 4))
    layer = linear(inside, 3 * inside, bias=True) + linear(inside, inside, bias=True)
    layer += plain_mlp(inside, width, bias=True) + tensor(4 * inside)
    merged = _merged(config, inside)
    merger = tensor(2 * inside) + two_layers(merged, merged, output)
    return tensor(inside, _patches(config, 14)) + layer * layer_count(config) + merger


def qwen2_5(config: Config) -> Count:
    """Qwen2_5_VisionTransformerPretrainedModel: a gated MLP with biases, norms of weights only."""
    hidden = config.needed(_HIDDEN)
    layer = linear(hidden, 3 * hidden, bias=True) + linear(hidden, hidden, bias=True)
    layer += gated_mlp(hidden, config.needed(_WIDTH), bias=True) + tensor(2 * hidden)
    merged = _merged(config, hidden)
    merger = tensor(hidden) + two_layers(merged, merged, config.needed(_OUTPUT))
    return tensor(hidden, _patches(config, 14)) + layer * layer_count(config) + merger


def qwen3(config: Config) -> Count:
    """Qwen3VLVisionModel: learned positions, and a merger more for every layer that feeds the decoder's first ones."""
    hidden = config.needed(_HIDDEN)
    merged = _merged(config, hidden)
    mergers = two_layers(merged, merged, config.needed(_OUTPUT))
    deep = len(config.counts("deepstack_visual_indexes") or ())
    return _qwen3_layers(config, hidden) + mergers * (deep + 1) + tensor(2 * hidden + 2 * merged * deep)


def qwen3_5(config: Config) -> Count:
    """Qwen3_5VisionModel: as Qwen3VLVisionModel, with one merger."""
    hidden = config.needed(_HIDDEN)
    merged = _merged(config, hidden)
    return _qwen3_layers(config, hidden) + two_layers(merged, merged, config.needed(_OUTPUT)) + tensor(2 * hidden)


def _qwen3_layers(config: Config, hidden: int) -> Count:
    layer = linear(hidden, 3 * hidden, bias=True) + linear(hidden, hidden, bias=True)
    layer += plain_mlp(hidden, config.needed(_WIDTH), bias=True) + tensor(4 * hidden)
    rows = _patches(config, 16) + 1 + config.size("num_position_embeddings", 2304)
    return tensor(hidden, rows) + layer * layer_count(config)


def glm4v(config: Config) -> Count:
    """Glm4vVisionModel: MLPs as wide as the output, a convolution that halves both sides, a gated merger."""
    hidden, output = config.needed(_HIDDEN), config.needed(_OUTPUT)
    layer = linear(hidden, 3 * hidden, bias=config.flag("attention_bias")) + linear(hidden, hidden)
    layer += gated_mlp(hidden, output) + tensor(2 * hidden)
    rows = _patches(config, 14) + 1 + patches(config, 336, 14) + 2
    halved = tensor(output, _merged(config, hidden) + 1)
    merger = linear(output, output) + tensor(2 * output) + gated_mlp(output, config.needed(_WIDTH))
    return tensor(hidden, rows) + layer * layer_count(config) + halved + merger
