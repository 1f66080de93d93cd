"""Nemotron-H and Nemotron 3: every layer is one thing only: a state space, attention, an MLP, or experts."""

from llmcli.errors import ModelError
from llmcli.estimate import config as keys
from llmcli.estimate.config import Config, shown
from llmcli.estimate.counts import plain_mlp, tensor
from llmcli.estimate.experts import Experts, Mixture
from llmcli.estimate.facts import Blueprint, Layer
from llmcli.estimate.families.kinds import MLP, MOE, Kinds, listed
from llmcli.estimate.families.self_attention import SelfAttention, self_attention
from llmcli.estimate.families.stack import layers_of, stack
from llmcli.estimate.families.state_space import Mamba2, Mamba2Keys, mamba2_of
from llmcli.estimate.layers import FULL_ATTENTION, LINEAR_ATTENTION

_LETTERS = {"M": LINEAR_ATTENTION, "E": MOE, "*": FULL_ATTENTION, "-": MLP}
_PATTERN = ("hybrid_override_pattern",)
_SPACE = Mamba2Keys(
    heads="mamba_num_heads",
    head_dim="mamba_head_dim",
    groups=("mamba_n_groups", "n_groups"),
    state="ssm_state_size",
    kernel=("mamba_d_conv", "conv_kernel"),
    flags=("use_bias", "use_bias", ("mamba_conv_bias", "use_conv_bias")),
)
_MIXTURE = Mixture(
    number=("n_routed_experts", "num_local_experts"),
    shared_width="moe_shared_expert_intermediate_size",
    shared_bias="mlp_bias",
    gated=False,
    latent="moe_latent_size",
)


def nemotron_h(config: Config) -> Blueprint:
    """NemotronHForCausalLM. Raises ModelError that names what is missing or wrong."""
    kinds = _kinds(config)
    attention, space = self_attention(config), mamba2_of(config, _SPACE)
    layers = layers_of(kinds, lambda kind: _layer(kind, config, attention, space))
    widths = [_width(kind, config) for kind in dict.fromkeys(kinds)]
    return stack(config, layers, max(widths), attention if FULL_ATTENTION in kinds else None, own_head=True)


def _kinds(config: Config) -> Kinds:
    """The kind of each layer, whose number follows: num_hidden_layers says nothing here."""
    kinds = listed(config, tuple(_LETTERS.values()))
    if kinds is None:
        pattern = config.text(_PATTERN)
        if pattern is None:
            raise ModelError(
                f"{config.where}: neither layers_block_type nor {_PATTERN[0]} is there", "One of them names the layers."
            )
        kinds = tuple(_letter(config, letter) for letter in pattern[: keys.MAX_LAYERS + 1])
    if not 1 <= len(kinds) <= keys.MAX_LAYERS:
        raise ModelError(
            f"{config.where}: {len(kinds)} layers is no number from 1 to {keys.MAX_LAYERS}", "Check the list of layers."
        )
    return kinds


def _letter(config: Config, letter: str) -> str:
    if letter not in _LETTERS:
        raise config.wrong(
            _PATTERN[0], config.text(_PATTERN), f"no pattern: {shown(letter)} is none of {' '.join(_LETTERS)}"
        )
    return _LETTERS[letter]


def _layer(kind: str, config: Config, attention: SelfAttention, space: Mamba2) -> Layer:
    """A layer of this kind, with its norm."""
    hidden = space.hidden
    norm = tensor(hidden)
    if kind == LINEAR_ATTENTION:
        return Layer((space.mixer(),), space.count() + norm)
    if kind == FULL_ATTENTION:
        return Layer((attention.mixer(),), attention.count(hidden) + norm)
    if kind == MOE:
        return Layer((), _experts(config).count(hidden) + norm)
    return Layer((), plain_mlp(hidden, config.needed(keys.INTERMEDIATE), bias=config.flag("mlp_bias")) + norm)


def _experts(config: Config) -> Experts:
    return _MIXTURE.experts(config)


def _width(kind: str, config: Config) -> int:
    """Channels inside, that a token passes through."""
    if kind == MOE:
        return _experts(config).token_width
    return config.needed(keys.INTERMEDIATE) if kind == MLP else 0


BUILDERS = {"nemotron_h": nemotron_h}
