"""Recurrent networks without any attention: RWKV (version 4) and xLSTM. A state of fixed size, whatever the length."""

from llmcli.errors import ModelError
from llmcli.estimate import config as keys
from llmcli.estimate.config import Config, layer_number
from llmcli.estimate.counts import Count, gated_mlp, linear, tensor
from llmcli.estimate.facts import Blueprint, Layer, Recurrence
from llmcli.estimate.families.stack import stack

_MULTIPLE = 64


def rwkv(config: Config) -> Blueprint:
    """RwkvForCausalLM: per layer two inputs of the step before, and three float32 states. Raises ModelError."""
    hidden, number = config.needed(keys.HIDDEN), layer_number(config)
    inner = config.count(("attention_hidden_size",)) or hidden
    width = config.count(keys.INTERMEDIATE) or 4 * hidden
    attention = linear(hidden, inner) * 3 + linear(inner, hidden) + tensor(2, inner) + tensor(3, hidden)
    feed_forward = linear(hidden, width) + linear(width, hidden) + linear(hidden, hidden) + tensor(2, hidden)
    state = Recurrence(state=3 * hidden, shift=2 * hidden)
    layer = Layer((state,), attention + feed_forward + tensor(4, hidden))
    return stack(config, (layer,) * number, width, norm=2, around=tensor(2, hidden))


def xlstm(config: Config) -> Blueprint:
    """xLSTMForCausalLM: per head a matrix, a vector and a number. Raises ModelError for what is missing or wrong."""
    hidden = config.needed(("hidden_size", "embedding_dim"))
    number = config.needed(("num_blocks", "num_hidden_layers"), limit=keys.MAX_LAYERS)
    heads, bias = config.needed(("num_heads",)), config.flag("use_bias")
    query, value = hidden * _factor(config, "qk_dim_factor"), hidden * _factor(config, "v_dim_factor")
    multiple = config.needed(("ffn_round_up_to_multiple_of",))
    width = _rounded(hidden * _factor(config, "ffn_proj_factor"), multiple)
    cell = _cell(hidden, int(query), int(value), heads, bias=bias) + gated_mlp(hidden, width, bias=bias)
    norms = tensor(2 * hidden + int(value) // heads * heads, 2 if bias else 1)
    state = _xlstm_state(heads, _rounded(query, _MULTIPLE) // heads, _rounded(value, _MULTIPLE) // heads)
    return stack(config, (Layer((state,), cell + norms),) * number, width, own_head=True)


def _xlstm_state(heads: int, key_dim: int, value_dim: int) -> Recurrence:
    """What xLSTMCache keeps per layer, in the dtype that the model runs in."""
    return Recurrence(state=heads * (key_dim * value_dim + key_dim + 1), float_state=False)


def _cell(hidden: int, query: int, value: int, heads: int, *, bias: bool) -> Count:
    """Projections of an mLSTM; its two gates always have a bias."""
    inputs = linear(hidden, query, bias=bias) * 2 + linear(hidden, value, bias=bias) * 2
    return inputs + linear(hidden, heads, bias=True) * 2 + linear(value, hidden, bias=bias)


def _factor(config: Config, key: str) -> float:
    factor = config.number((key,))
    if factor is None:
        raise ModelError(f"{config.where}: {key} is missing", "The config must say it: it cannot be guessed.")
    return factor


def _rounded(width: float, multiple: int) -> int:
    """`width` as a whole number, rounded up to a multiple."""
    return int((width + multiple - 1) // multiple * multiple)


BUILDERS = {"rwkv": rwkv, "xlstm": xlstm}
