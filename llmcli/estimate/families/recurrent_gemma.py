"""RecurrentGemma: gated linear recurrences with attention in windows.

Read in transformers 5.24, RecurrentGemmaForCausalLM: the cache keeps the keys and values; the recurrences keep their
state, and the inputs of their convolution but the current one, inside the modules. Both are counted.
"""

from llmcli.estimate import config as keys
from llmcli.estimate.config import Config, layer_number
from llmcli.estimate.counts import Count, gated_mlp, linear, tensor
from llmcli.estimate.facts import Blueprint, Layer, Recurrence
from llmcli.estimate.families.heads import head_dim_of, kv_heads_of
from llmcli.estimate.families.self_attention import SelfAttention
from llmcli.estimate.families.stack import stack

_RECURRENT, _ATTENTION = "recurrent", "attention"
_NOTES = ("the recurrences keep their state inside the model, apart from the cache: both are counted as KV cache",)
_WINDOW = ("attention_window_size", "sliding_window")


def recurrent_gemma(config: Config) -> Blueprint:
    """RecurrentGemmaForCausalLM. Raises ModelError that names what is missing or wrong."""
    hidden, heads, width = config.needed(keys.HIDDEN), config.needed(keys.HEADS), config.needed(keys.INTERMEDIATE) // 2
    head_dim = head_dim_of(config, hidden, heads, explicit=False)
    attention = SelfAttention(heads, kv_heads_of(config, heads), head_dim, bias=config.flag("attention_bias"))
    rest = gated_mlp(hidden, width, bias=True) + tensor(2, hidden)
    bias = tensor(0 if attention.bias else hidden)
    window = config.needed(_WINDOW)
    made = {
        _RECURRENT: Layer((_state(config, hidden),), _recurrence(config, hidden, heads) + rest),
        _ATTENTION: Layer((attention.mixer(window),), attention.count(hidden) + bias + rest),
    }
    return stack(config, [made[kind] for kind in _kinds(config)], width, attention, notes=_NOTES)


def _kinds(config: Config) -> tuple[str, ...]:
    """The pattern in block_types, again and again."""
    pattern = config.texts("block_types") or ()
    for name in pattern:
        if name not in (_RECURRENT, _ATTENTION):
            raise config.wrong("block_types", name, f"neither {_RECURRENT} nor {_ATTENTION}")
    if not pattern:
        raise config.wrong("block_types", [], f"no pattern of {_RECURRENT} and {_ATTENTION}")
    return tuple(pattern[index % len(pattern)] for index in range(layer_number(config)))


def _state(config: Config, hidden: int) -> Recurrence:
    width, kernel = _width(config, hidden), config.needed(("conv1d_width",))
    return Recurrence(state=width, shift=width * (kernel - 1))


def _recurrence(config: Config, hidden: int, heads: int) -> Count:
    """Parameters of a recurrence: three projections, a convolution, and two gates that are matrices per head."""
    width, kernel = _width(config, hidden), config.needed(("conv1d_width",))
    block = width // heads
    projections = linear(hidden, width, bias=True) * 2 + linear(width, hidden, bias=True)
    gates = tensor(heads, block, block) * 2 + tensor(heads, block) * 2
    return projections + gates + tensor(width, kernel + 2)


def _width(config: Config, hidden: int) -> int:
    return config.count(("lru_width",)) or hidden


BUILDERS = {"recurrent_gemma": recurrent_gemma}
