"""MiniMax-01: lightning attention, whose state is a matrix per head, with attention in every second layer, and experts.

Read in transformers 5.24, MiniMaxForCausalLM: its cache, MiniMaxCache, keeps the matrices beside the keys and values,
in the dtype that the model runs in.
"""

from llmcli.estimate import config as keys
from llmcli.estimate.config import Config, layer_number
from llmcli.estimate.counts import linear, tensor
from llmcli.estimate.experts import Mixture
from llmcli.estimate.facts import Blueprint, Layer, Recurrence
from llmcli.estimate.families.kinds import kinds_of
from llmcli.estimate.families.self_attention import self_attention
from llmcli.estimate.families.stack import stack
from llmcli.estimate.layers import FULL_ATTENTION, LINEAR_ATTENTION

_MIXTURE = Mixture(number=("num_local_experts", "num_experts"), width="intermediate_size")


def minimax(config: Config) -> Blueprint:
    """MiniMaxForCausalLM. Raises ModelError that names what is missing or wrong."""
    hidden = config.needed(keys.HIDDEN)
    kinds = kinds_of(
        config,
        layer_number(config),
        (LINEAR_ATTENTION, FULL_ATTENTION),
        lambda index: LINEAR_ATTENTION if index % 2 else FULL_ATTENTION,
    )
    attention, experts = self_attention(config), _MIXTURE.experts(config)
    rest = experts.count(hidden) + tensor(2, hidden)
    width = attention.heads * attention.head_dim
    state = Recurrence(state=width * attention.head_dim, float_state=False)
    lightning = linear(hidden, 4 * width) + linear(width, hidden) + tensor(width)
    made = {
        FULL_ATTENTION: Layer((attention.mixer(),), attention.count(hidden) + rest),
        LINEAR_ATTENTION: Layer((state,), lightning + rest),
    }
    return stack(config, [made[kind] for kind in kinds], experts.token_width, attention)


BUILDERS = {"minimax": minimax}
