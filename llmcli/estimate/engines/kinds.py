"""transformers' names of layer types, for what a layer keeps."""

from llmcli.estimate.facts import Attention, Latent
from llmcli.estimate.layers import CHUNKED_ATTENTION, FULL_ATTENTION, SLIDING_ATTENTION


def kind_of(mixer: Attention | Latent) -> str:
    """The layer type: the mixer's own name for it, else what its window says."""
    if mixer.kind:
        return mixer.kind
    if mixer.window is None:
        return FULL_ATTENTION
    chunked = isinstance(mixer, Attention) and mixer.chunked
    return CHUNKED_ATTENTION if chunked else SLIDING_ATTENTION
