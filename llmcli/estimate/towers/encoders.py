"""Vision and audio encoders that many models share, by the model type of their config.

Read in transformers 5.24: the classes named, each in models/<type>/modeling_<type>.py.
"""

from dataclasses import replace

from llmcli.estimate.config import Config
from llmcli.estimate.counts import NOTHING, Count, gated_mlp, linear, plain_mlp, tensor
from llmcli.estimate.towers.parts import gated_layer, layer_count, patch_weights, patches, plain_layer, sides

_HIDDEN = ("hidden_size", "d_model")
_WIDTH = ("intermediate_size", "encoder_ffn_dim")


def _transformer(config: Config) -> tuple[int, Count]:
    hidden, width = config.needed(_HIDDEN), config.needed(_WIDTH)
    return hidden, plain_layer(hidden, width) * layer_count(config)


def siglip(config: Config) -> Count:
    """SiglipVisionModel: a convolution with bias, a position per patch, and a pooling head that may be absent."""
    pooled = config.value(("vision_use_head",))[1] is None or config.flag("vision_use_head")
    hidden = config.needed(_HIDDEN)
    head = _pooling_head(hidden, config.needed(_WIDTH)) if pooled else NOTHING
    return idefics(config, patch=16) + head


def _pooling_head(hidden: int, width: int) -> Count:
    """A probe, a norm, an MLP, and torch's own attention, whose projections are no linear layers of their own."""
    return tensor(4 * hidden * hidden + 4 * hidden) + tensor(3 * hidden) + plain_mlp(hidden, width, bias=True)


def idefics(config: Config, patch: int = 32) -> Count:
    """Idefics3VisionTransformer, and SmolVLM's: SigLIP without the pooling head."""
    hidden, layers = _transformer(config)
    positions = patches(config, 224, patch)
    return tensor(hidden * (patch_weights(config, patch) + 1 + positions + 2)) + layers


def clip(config: Config) -> Count:
    """CLIPVisionModel: a class embedding, a convolution without bias, norms before and after the layers."""
    hidden, layers = _transformer(config)
    positions = patches(config, 224, 32) + 1
    return tensor(hidden * (1 + patch_weights(config, 32) + positions + 4)) + layers


def pixtral(config: Config) -> Count:
    """PixtralVisionModel: a convolution without bias, one norm before the layers, which have no biases."""
    hidden = config.needed(_HIDDEN)
    layers = gated_layer(hidden, config.needed(_WIDTH)) * layer_count(config)
    return tensor(hidden * (patch_weights(config, 16) + 1)) + layers


def internvl(config: Config) -> Count:
    """InternVLVisionModel: layer scales, optional norms of queries and keys, optional mask token and positions."""
    hidden, width = config.needed(_HIDDEN), config.needed(_WIDTH)
    norm = 1 if config.text(("norm_type",)) == "rms_norm" else 2
    layer = linear(hidden, hidden, bias=config.flag("attention_bias")) * 3 + linear(hidden, hidden, bias=True)
    layer += plain_mlp(hidden, width, bias=True) + tensor(hidden * (2 * norm + 2))
    if config.flag("use_qk_norm"):
        layer += tensor(2 * hidden)
    rows = 1 + patch_weights(config, 14) + 1
    rows += 1 if config.flag("use_mask_token") else 0
    rows += 0 if _off(config, "use_absolute_position_embeddings") else patches(config, 448, 14) + 1
    rows += 2 if _off(config, "use_mean_pooling") else 0
    return tensor(hidden * rows) + layer * layer_count(config)


def _off(config: Config, key: str) -> bool:
    """Whether a flag that is true by default is switched off."""
    return key in config.values and not config.flag(key)


def whisper(config: Config) -> Count:
    """Qwen2AudioEncoder and VoxtralEncoder: two convolutions, a position per frame; keys have no bias."""
    hidden, layers = _transformer(config)
    number = layer_count(config)
    keys_without_bias = replace(layers, total=layers.total - hidden * number)
    convolutions = 3 * hidden * (config.size("num_mel_bins", 128) + hidden) + 2 * hidden
    return tensor(convolutions + (config.size("max_source_positions", 1500) + 2) * hidden) + keys_without_bias


def gemma4(config: Config) -> Count:
    """Gemma4VisionModel: two tables of positions, four norms per layer, norms of queries and keys."""
    hidden, width, head = config.needed(_HIDDEN), config.needed(_WIDTH), config.needed(("head_dim",))
    queries = config.needed(("num_attention_heads",)) * head
    keys = config.needed(("num_key_value_heads",)) * head
    layer = linear(hidden, queries) + linear(hidden, keys) * 2 + linear(queries, hidden)
    layer += gated_mlp(hidden, width) + tensor(4 * hidden + 2 * head)
    tall, wide = sides(config, "patch_size", 16)
    positions = tensor(2, config.size("position_embedding_size", 10240), hidden)
    return linear(3 * tall * wide, hidden) + positions + layer * layer_count(config)
