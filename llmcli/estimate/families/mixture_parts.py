"""Gates of the attention beside a mixture of experts, and experts that a token uses more of in some layers."""

from llmcli.estimate.config import Config
from llmcli.estimate.counts import Count, linear, tensor
from llmcli.estimate.experts import LayerExperts, Mixture, MixtureRule
from llmcli.estimate.families.decoder import Shape


def attention_gate(_config: Config, shape: Shape, _index: int) -> Count:
    """A gate for every channel that the heads put out."""
    return linear(shape.hidden, shape.heads * shape.head_dim)


def biased_gate(config: Config, shape: Shape, index: int) -> Count:
    """The same gate with a bias per head (BeamAttention)."""
    return attention_gate(config, shape, index) + tensor(shape.heads)


def used_per_layer(mixture: Mixture) -> MixtureRule:
    """The number of experts that a token uses as one number or as a list with one per layer (HunYuanMoEV1Gate)."""

    def rule(config: Config, layers: int) -> LayerExperts:
        key, value = config.value(mixture.used)
        if not isinstance(value, list | tuple):
            return mixture(config, layers)
        kinds = {used: mixture.experts(config, used) for used in set(config.counts(key, layers) or ())}
        return tuple(kinds[used] for used in config.counts(key, layers) or ())

    return rule
