"""State-space mixers: their sizes, their parameters, and the state that they keep.

Read in transformers 5.24: MambaMixer and JambaMambaMixer for Mamba, Mamba2Mixer, BambaMixer, FalconH1Mixer and
NemotronHMamba2Mixer for Mamba-2. Both keep the last inputs of a convolution and a recurrent state.
"""

from dataclasses import dataclass
from typing import Any

from llmcli.errors import ModelError
from llmcli.estimate import config as keys
from llmcli.estimate.config import Config
from llmcli.estimate.counts import Count, linear, tensor
from llmcli.estimate.facts import Recurrence
from llmcli.estimate.layers import LINEAR_ATTENTION


@dataclass(frozen=True, slots=True)
class Mamba:
    """Mamba's mixer. inner: channels inside; state: per channel; rank: of the time step; kernel: of the convolution.

    bias: of the projections to and from the layer's channels. normed: the time step and both state projections have a
    norm. heads: the state projections are split into as many, 1: one for all channels (Zamba has more).
    """

    hidden: int
    inner: int
    state: int
    rank: int
    kernel: int
    bias: bool
    conv_bias: bool
    normed: bool = False

    def count(self) -> Count:
        """Its parameters."""
        steps = linear(self.inner, self.rank + 2 * self.state) + linear(self.rank, self.inner, bias=True)
        norms = tensor(self.rank + 2 * self.state) if self.normed else tensor(0)
        return self.frame() + steps + norms

    def frame(self) -> Count:
        """Its parameters but those that make the time step and the state projections."""
        projections = linear(self.hidden, 2 * self.inner, bias=self.bias) + linear(
            self.inner, self.hidden, bias=self.bias
        )
        convolution = tensor(self.inner, self.kernel + (1 if self.conv_bias else 0))
        return projections + convolution + tensor(self.inner, self.state + 1)

    def mixer(self, kind: str = LINEAR_ATTENTION) -> Recurrence:
        """What a layer keeps."""
        return Recurrence(self.inner, self.kernel, self.inner * self.state, kind=kind)


@dataclass(frozen=True, slots=True)
class Mamba2:
    """Mamba-2's mixer. inner: channels inside, of all heads; groups: of state projections; state: per channel.

    bias, output_bias: of the projection from and to the layer's channels. normed: the output has a gated norm.
    """

    hidden: int
    inner: int
    heads: int
    groups: int
    state: int
    kernel: int
    bias: bool
    output_bias: bool
    conv_bias: bool
    normed: bool = True

    @property
    def conv_channels(self) -> int:
        """Channels of the convolution: the inputs and both state projections."""
        return self.inner + 2 * self.groups * self.state

    def count(self) -> Count:
        """Its parameters."""
        inputs = linear(self.hidden, self.inner + self.conv_channels + self.heads, bias=self.bias)
        convolution = tensor(self.conv_channels, self.kernel + (1 if self.conv_bias else 0))
        norm = tensor(self.inner if self.normed else 0)
        return (
            inputs + convolution + tensor(3, self.heads) + norm + linear(self.inner, self.hidden, bias=self.output_bias)
        )

    def mixer(self, kind: str = LINEAR_ATTENTION) -> Recurrence:
        """What a layer keeps."""
        return Recurrence(self.conv_channels, self.kernel, self.inner * self.state, kind=kind)


@dataclass(frozen=True, slots=True)
class MambaKeys:
    """The names that a config has for the sizes of Mamba's mixer.

    expand: the key for the ratio of the channels inside to the layer's; inner: the key for their number, which wins.
    """

    state: str
    kernel: str
    expand: str
    rank: str
    bias: str
    conv_bias: str
    inner: str | None = None


MAMBA = MambaKeys(
    "state_size", "conv_kernel", "expand", "time_step_rank", "use_bias", "use_conv_bias", inner="intermediate_size"
)
HYBRID_MAMBA = MambaKeys(
    "mamba_d_state", "mamba_d_conv", "mamba_expand", "mamba_dt_rank", "mamba_proj_bias", "mamba_conv_bias"
)


def mamba_of(config: Config, names: MambaKeys, *, normed: bool = False) -> Mamba:
    """The mixer that `config` describes under `names`. Raises ModelError that names what is missing or wrong."""
    hidden = config.needed(keys.HIDDEN)
    inner = config.count((names.inner,)) if names.inner else None
    return Mamba(
        hidden=hidden,
        inner=inner or expanded(config, names.expand, hidden),
        state=config.needed((names.state,)),
        rank=-(-hidden // 16) if config.value((names.rank,))[1] == "auto" else config.needed((names.rank,)),
        kernel=config.needed((names.kernel,)),
        bias=config.flag(names.bias),
        conv_bias=config.flag(names.conv_bias),
        normed=normed,
    )


@dataclass(frozen=True, slots=True)
class Mamba2Keys:
    """The names that a config has for the sizes of Mamba-2's mixer.

    inner: the key for the channels inside, where there is one; expand: else that for their ratio to the layer's. With
    neither of them they are heads × head_dim. flags: bias, output bias and convolution bias: a key, or whether it has
    one always.
    """

    heads: str
    head_dim: str | None
    groups: tuple[str, ...]
    state: str
    kernel: tuple[str, ...]
    flags: tuple[str | bool, str | bool, tuple[str, ...] | bool]
    expand: str | None = None
    inner: str | None = None


MAMBA2 = Mamba2Keys(
    heads="num_heads",
    head_dim="head_dim",
    groups=("n_groups",),
    state="state_size",
    kernel=("conv_kernel",),
    flags=("use_bias", "use_bias", ("use_conv_bias",)),
    expand="expand",
)
HYBRID_MAMBA2 = Mamba2Keys(
    heads="mamba_n_heads",
    head_dim="mamba_d_head",
    groups=("mamba_n_groups",),
    state="mamba_d_state",
    kernel=("mamba_d_conv",),
    flags=("mamba_proj_bias", "mamba_proj_bias", ("mamba_conv_bias",)),
    expand="mamba_expand",
)


def mamba2_of(config: Config, names: Mamba2Keys, *, normed: bool = True) -> Mamba2:
    """The mixer that `config` describes under `names`. Raises ModelError that names what is missing or wrong."""
    hidden, heads = config.needed(keys.HIDDEN), config.needed((names.heads,))
    bias, output_bias, conv_bias = (_flag(config, flag) for flag in names.flags)
    return Mamba2(
        hidden=hidden,
        inner=_inner(config, names, hidden, heads),
        heads=heads,
        groups=config.needed(names.groups),
        state=config.needed((names.state,)),
        kernel=config.needed(names.kernel),
        bias=bias,
        output_bias=output_bias,
        conv_bias=conv_bias,
        normed=normed,
    )


def expanded(config: Config, key: str, hidden: int) -> int:
    """`hidden` times the config's `key`. Raises ModelError where the key is missing or wrong."""
    ratio = config.number((key,))
    inner = int(hidden * ratio) if ratio else 0
    if inner < 1:
        raise config.wrong(key, config.value((key,))[1], f"no ratio to the {hidden} channels of a layer")
    return inner


def _inner(config: Config, names: Mamba2Keys, hidden: int, heads: int) -> int:
    head_dim = _head_dim(config, names)
    inner = config.count((names.inner,)) if names.inner else None
    if inner is None and names.expand:
        inner = expanded(config, names.expand, hidden)
    if inner is None:
        return heads * config.needed((names.head_dim or "head_dim",))
    if inner % heads or (head_dim and heads * head_dim != inner):
        raise ModelError(
            f"{config.where}: {names.heads} = {heads} heads do not make up the {inner} channels of the state space",
            f"{names.expand} times the hidden size is heads times channels per head: check the file.",
        )
    return inner


def _head_dim(config: Config, names: Mamba2Keys) -> int | None:
    """The channels of a head; None where the config leaves them to be worked out."""
    if names.head_dim is None or config.value((names.head_dim,))[1] == "auto":
        return None
    return config.count((names.head_dim,))


def _flag(config: Config, flag: Any) -> bool:
    if isinstance(flag, bool):
        return flag
    names = (flag,) if isinstance(flag, str) else flag
    return config.flag(next((name for name in names if name in config.values), names[-1]))
