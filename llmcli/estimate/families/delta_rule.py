"""Linear attention by the delta rule: its sizes, its parameters, and the state that it keeps.

Read in transformers 5.24: Qwen3NextGatedDeltaNet and its relatives, OlmoHybridGatedDeltaNet, KimiLinearDeltaAttention
and its relative in BailingHybrid. All keep the last inputs of one convolution over queries, keys and values, and per
head of the values a matrix (key channels × value channels).
"""

from dataclasses import dataclass
from typing import Literal

from llmcli.estimate import config as keys
from llmcli.estimate.config import Config
from llmcli.estimate.counts import NOTHING, Count, linear, tensor
from llmcli.estimate.facts import Recurrence

KERNEL = ("linear_conv_kernel_dim",)


@dataclass(frozen=True, slots=True)
class DeltaNet:
    """Gated delta net: heads of keys and of values, and the channels of one head.

    kernel: the convolution's width. inputs: how its projections are cut: all that the convolution reads in one, the
    gate with it as well, or queries, keys and values apart.
    """

    hidden: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int
    inputs: Literal["convolved", "gated", "apart"] = "convolved"

    @property
    def conv_channels(self) -> int:
        """Channels of queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.values

    @property
    def values(self) -> int:
        """Channels of the values of all heads."""
        return self.value_heads * self.value_dim

    def count(self) -> Count:
        """Its parameters: projections (queries, keys, values, a gate, two numbers per head), convolution, norm."""
        inputs = sum((linear(self.hidden, outputs) for outputs in self._outputs()), start=NOTHING)
        decay = tensor(2, self.value_heads)
        convolution = tensor(self.conv_channels, self.kernel)
        return inputs + decay + convolution + tensor(self.value_dim) + linear(self.values, self.hidden)

    def mixer(self) -> Recurrence:
        """What a layer keeps."""
        return Recurrence(self.conv_channels, self.kernel, self.value_heads * self.key_dim * self.value_dim)

    def _outputs(self) -> tuple[int, ...]:
        """The output channels of every projection."""
        keys_ = self.key_heads * self.key_dim
        if self.inputs == "gated":
            return self.conv_channels + self.values, 2 * self.value_heads
        convolved = (keys_, keys_, self.values) if self.inputs == "apart" else (self.conv_channels,)
        return *convolved, self.values, self.value_heads, self.value_heads


def delta_net_of(config: Config) -> DeltaNet:
    """The delta net that `config` describes. Raises ModelError that names what is missing or wrong."""
    return DeltaNet(
        hidden=config.needed(keys.HIDDEN),
        key_heads=config.needed(("linear_num_key_heads",)),
        value_heads=config.needed(("linear_num_value_heads",)),
        key_dim=config.needed(("linear_key_head_dim",)),
        value_dim=config.needed(("linear_value_head_dim",)),
        kernel=config.needed(KERNEL),
    )


@dataclass(frozen=True, slots=True)
class KimiDelta:
    """Kimi delta attention: heads of head_dim channels, with a gate for every channel of the keys.

    low_rank: both gates go through a bottleneck of head_dim channels.
    """

    hidden: int
    heads: int
    head_dim: int
    kernel: int
    low_rank: bool = True

    @property
    def width(self) -> int:
        """Channels of all heads."""
        return self.heads * self.head_dim

    def count(self) -> Count:
        """Its parameters."""
        inputs = linear(self.hidden, self.width) * 3 + self._gate() * 2 + linear(self.hidden, self.heads)
        decay = tensor(self.width) + tensor(self.heads)
        convolution = tensor(3 * self.width, self.kernel)
        return inputs + decay + convolution + tensor(self.head_dim) + linear(self.width, self.hidden)

    def mixer(self) -> Recurrence:
        """What a layer keeps."""
        return Recurrence(3 * self.width, self.kernel, self.width * self.head_dim)

    def _gate(self) -> Count:
        if not self.low_rank:
            return linear(self.hidden, self.width)
        return linear(self.hidden, self.head_dim) + linear(self.head_dim, self.width)
