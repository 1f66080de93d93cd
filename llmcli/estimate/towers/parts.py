"""The parts that towers are built from, and sizes that their configs give as one number or two."""

from llmcli.estimate.config import MAX_LAYERS, Config
from llmcli.estimate.counts import Count, gated_mlp, linear, plain_mlp, tensor

LAYERS = ("num_hidden_layers", "depth", "encoder_layers")
_LARGEST = 2**20


def sides(config: Config, key: str, otherwise: int) -> tuple[int, int]:
    """Height and width, from one number or two. Raises ModelError naming file, key and value."""
    value = config.value((key,))[1]
    if not isinstance(value, list | tuple):
        side = config.count((key,), limit=_LARGEST) or otherwise
        return side, side
    both = config.counts(key) or ()
    if len(both) != 2 or not all(0 < side <= _LARGEST for side in both):
        raise config.wrong(key, value, f"neither a number nor two from 1 to {_LARGEST}")
    return both[0], both[1]


def patches(config: Config, image: int, patch: int) -> int:
    """The patches of an image of the size that the tower was trained with."""
    height, width = sides(config, "image_size", image)
    tall, wide = sides(config, "patch_size", patch)
    return (height // tall) * (width // wide)


def patch_weights(config: Config, patch: int, channels: str = "num_channels", frames: int = 1) -> int:
    """Weights per output channel of the convolution over patches."""
    tall, wide = sides(config, "patch_size", patch)
    return config.size(channels, 3) * frames * tall * wide


def plain_layer(hidden: int, width: int) -> Count:
    """A layer of a vision transformer: four projections and an MLP with biases, two norms with biases."""
    return linear(hidden, hidden, bias=True) * 4 + plain_mlp(hidden, width, bias=True) + tensor(4 * hidden)


def gated_layer(hidden: int, width: int) -> Count:
    """A layer with a gated MLP: no biases, two norms of weights only."""
    return linear(hidden, hidden) * 4 + gated_mlp(hidden, width) + tensor(2 * hidden)


def two_layers(inputs: int, hidden: int, outputs: int, *, bias: bool = True) -> Count:
    """Two linear layers, one after the other."""
    return linear(inputs, hidden, bias=bias) + linear(hidden, outputs, bias=bias)


def layer_count(config: Config) -> int:
    """The number of layers of a tower."""
    return config.needed(LAYERS, limit=MAX_LAYERS)
