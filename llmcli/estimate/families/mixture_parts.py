"""What mixtures of experts have in a layer or around the layers besides attention, norms and experts."""

from llmcli.estimate.config import Config
from llmcli.estimate.counts import NOTHING, Count, linear, tensor
from llmcli.estimate.experts import LayerExperts, Mixture, MixtureRule
from llmcli.estimate.families.decoder import ModelRule, Shape


def sinks(_config: Config, shape: Shape, _index: int) -> Count:
    """One attention sink per head."""
    return tensor(shape.heads)


def attention_gate(_config: Config, shape: Shape, _index: int) -> Count:
    """A gate for every channel that the heads put out."""
    return linear(shape.hidden, shape.heads * shape.head_dim)


def biased_gate(config: Config, shape: Shape, index: int) -> Count:
    """The same gate with a bias per head (BeamAttention)."""
    return attention_gate(config, shape, index) + tensor(shape.heads)


def head_bias(key: str) -> ModelRule:
    """A bias of the head, where the config's `key` asks for it."""

    def rule(config: Config, shape: Shape) -> Count:
        return tensor(shape.vocabulary) if config.flag(key) else NOTHING

    return rule


def used_per_layer(mixture: Mixture) -> MixtureRule:
    """The number of experts that a token uses as one number or as a list with one per layer (HunYuanMoEV1Gate)."""

    def rule(config: Config, layers: int) -> LayerExperts:
        key, value = config.value(mixture.used)
        if not isinstance(value, list | tuple):
            return mixture(config, layers)
        kinds = {used: mixture.experts(config, used) for used in set(config.counts(key, layers) or ())}
        return tuple(kinds[used] for used in config.counts(key, layers) or ())

    return rule
