"""What joins a tower to the language model, by the type of the multimodal model.

Every function takes the multimodal config, that of the tower, and the channels of the language model. Read in
transformers 5.24: the projector or connector classes in models/<type>/modeling_<type>.py.
"""

from llmcli.estimate.config import Config
from llmcli.estimate.counts import NOTHING, Count, linear, tensor
from llmcli.estimate.towers.parts import two_layers

_HIDDEN = ("hidden_size",)


def nothing(_config: Config, _tower: Config, _hidden: int) -> Count:
    """The tower ends in the language model's channels."""
    return NOTHING


def _features(config: Config, otherwise: int = 1) -> int:
    """How many of the tower's layers are read."""
    said = config.value(("vision_feature_layer", "vision_feature_layers"))[1]
    return len(said) if isinstance(said, list | tuple) else 1 if isinstance(said, int) else otherwise


def _biased(config: Config, *, otherwise: bool) -> bool:
    key = "multimodal_projector_bias"
    return config.flag(key) if config.values.get(key) is not None else otherwise


def llava(config: Config, tower: Config, hidden: int) -> Count:
    """Two linear layers."""
    inputs = tower.needed(_HIDDEN) * _features(config)
    return two_layers(inputs, hidden, hidden, bias=_biased(config, otherwise=True))


def llava_next(config: Config, tower: Config, hidden: int) -> Count:
    """Two linear layers, and an embedding that ends a row of an image."""
    return llava(config, tower, hidden) + tensor(hidden)


def vipllava(config: Config, tower: Config, hidden: int) -> Count:
    """A norm over several of the tower's layers, and two linear layers."""
    inputs = tower.needed(_HIDDEN) * _features(config, otherwise=5)
    return tensor(2 * inputs) + two_layers(inputs, hidden, hidden)


def mistral3(config: Config, tower: Config, hidden: int) -> Count:
    """A norm, a merger of neighbouring patches, and two linear layers."""
    seen = tower.needed(_HIDDEN)
    merger = linear(seen * config.size("spatial_merge_size", 2) ** 2, seen)
    inputs = seen * _features(config)
    return tensor(seen) + merger + two_layers(inputs, hidden, hidden, bias=_biased(config, otherwise=False))


def paligemma(config: Config, tower: Config, _hidden: int) -> Count:
    """One linear layer into `projection_dim` channels."""
    return linear(tower.needed(_HIDDEN), config.size("projection_dim", 2048), bias=True)


def gemma3(_config: Config, tower: Config, hidden: int) -> Count:
    """A norm, and a projection that is a plain parameter."""
    seen = tower.needed(_HIDDEN)
    return tensor(seen) + tensor(seen, hidden)


def gemma4(_config: Config, tower: Config, hidden: int) -> Count:
    """One linear layer, after a norm without weights."""
    return linear(tower.needed(_HIDDEN), hidden)


def idefics3(config: Config, tower: Config, hidden: int) -> Count:
    """One linear layer over shuffled pixels."""
    return linear(tower.needed(_HIDDEN) * config.size("scale_factor", 2) ** 2, hidden)


def aya(config: Config, tower: Config, hidden: int) -> Count:
    """A norm over shuffled pixels, and two linear layers with a gate between them."""
    inputs = tower.needed(_HIDDEN) * config.size("downsample_factor", 2) ** 2
    width = config.size("alignment_intermediate_size", hidden)
    return tensor(2 * inputs) + linear(inputs, width, bias=True) + linear(width // 2, hidden, bias=True)


def cohere2(config: Config, tower: Config, hidden: int) -> Count:
    """Two linear layers over shuffled pixels, with a gate between them."""
    inputs = tower.needed(_HIDDEN) * config.size("downsample_factor", 2) ** 2
    width = config.size("alignment_intermediate_size", 36864)
    return linear(inputs, width, bias=True) + linear(width // 2, hidden, bias=True)


def internvl(config: Config, tower: Config, hidden: int) -> Count:
    """A norm over shuffled pixels, and two linear layers."""
    ratio = config.number(("downsample_ratio",)) or 0.5
    inputs = tower.needed(_HIDDEN) * int(1 / max(ratio, 2**-10)) ** 2
    return tensor(2 * inputs) + two_layers(inputs, hidden, hidden)


def llama4(_config: Config, tower: Config, hidden: int) -> Count:
    """One linear layer."""
    return linear(tower.needed(("vision_output_dim",)), hidden)


def mllama(_config: Config, tower: Config, hidden: int) -> Count:
    """One linear layer with a bias."""
    return linear(tower.needed(("vision_output_dim",)), hidden, bias=True)


def qwen2_audio(_config: Config, tower: Config, hidden: int) -> Count:
    """One linear layer with a bias."""
    return linear(tower.needed(("d_model", "hidden_size")), hidden, bias=True)


def voxtral(_config: Config, tower: Config, hidden: int) -> Count:
    """Two linear layers over as many neighbouring frames as fill the width of the tower's MLP."""
    return two_layers(tower.needed(("intermediate_size", "encoder_ffn_dim")), hidden, hidden, bias=False)
