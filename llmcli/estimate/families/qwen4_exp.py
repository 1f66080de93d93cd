"""Qwen4-Exp: gated delta nets, attention with an indexer in every few layers, experts, and several residual streams.

Read in transformers 5.24, Qwen4ExpForCausalLM. An attention layer keeps one key of its indexer per token besides keys
and values; there are no norms but those of the streams.
"""

from dataclasses import dataclass

from llmcli.estimate import config as keys
from llmcli.estimate.config import Config, layer_number
from llmcli.estimate.counts import NOTHING, Count, linear, tensor
from llmcli.estimate.experts import Mixture
from llmcli.estimate.facts import Attention, Blueprint, Layer
from llmcli.estimate.families.delta_rule import delta_net_of
from llmcli.estimate.families.kinds import Kinds, every, kinds_of
from llmcli.estimate.families.self_attention import self_attention
from llmcli.estimate.families.stack import stack
from llmcli.estimate.layers import FULL_ATTENTION, INDEXED_ATTENTION, LINEAR_ATTENTION
from llmcli.estimate.refusals import refuse

_INEXACT = ("transformers also keeps positions for the indexer, up to 24 bytes per token and layer: not counted",)
_MIXTURE = Mixture(shared_width="shared_expert_intermediate_size", shared_gate=True)


@dataclass(frozen=True, slots=True)
class Streams:
    """The residual streams that a layer reads and writes. number: of streams; rank: of what mixes them."""

    hidden: int
    number: int
    rank: int

    def count(self, *, writes: bool = True) -> Count:
        """Parameters of one mixing; writes: it gives its result back to the streams."""
        width = self.number * self.hidden
        mixing = tensor(width) + linear(width, self.rank) + linear(self.rank, width)
        return mixing + (linear(width, self.number) if writes else NOTHING)


def qwen4_exp(config: Config) -> Blueprint:
    """Qwen4ExpForCausalLM. Raises ModelError for what is wrong, and for hashed n-gram embeddings (ple_layer_ids)."""
    if config.counts("ple_layer_ids"):
        raise refuse(config.where, "qwen4_exp", "ple_layer_ids, layers with n-gram embeddings, are not known here")
    hidden, kinds = config.needed(keys.HIDDEN), _kinds(config)
    streams = Streams(hidden, config.needed(("hc_count",)), config.needed(("hc_lowrank",)))
    attention, delta = self_attention(config, bias="attention_bias", gated=True, qk_norm="head"), delta_net_of(config)
    experts = _MIXTURE.experts(config)
    rest = experts.count(hidden) + streams.count() * 2
    made = {LINEAR_ATTENTION: Layer((delta.mixer(),), delta.count() + rest)}
    if INDEXED_ATTENTION in kinds:
        index_dim = config.needed(("indexer_head_dim",))
        index = linear(hidden, (config.needed(("indexer_n_heads",)) + 1) * index_dim) + tensor(2, index_dim)
        mixers = attention.mixer(kind=INDEXED_ATTENTION), Attention(1, index_dim, 0, kind=INDEXED_ATTENTION)
        made[INDEXED_ATTENTION] = Layer(mixers, attention.count(hidden) + index + rest)
    around = streams.count(writes=False)
    layers = [made[kind] for kind in kinds]
    return stack(config, layers, experts.token_width, attention, norm=0, around=around, inexact=_INEXACT)


def _kinds(config: Config) -> Kinds:
    """The kind of each layer; what lists call full attention has an indexer too."""
    known = (LINEAR_ATTENTION, INDEXED_ATTENTION, FULL_ATTENTION)
    at = every(config, "full_attention_interval", 4, INDEXED_ATTENTION)
    kinds = kinds_of(config, layer_number(config), known, at)
    return tuple(INDEXED_ATTENTION if kind == FULL_ATTENTION else kind for kind in kinds)


BUILDERS = {"qwen4_exp_text": qwen4_exp}
