"""What one forward takes beside weights and cache, in transformers: an estimate of its largest moment.

Either the MLP's moment or that of attention is the largest: with a fused attention kernel there are no scores, but a
chunk that continues a cache, or a window, brings a mask, and with it K and V repeated for every attention head
(transformers' sdpa_attention_forward, repeat_kv); latent attention expands the rows of one layer. Logits are those of
the last position.
"""

from dataclasses import dataclass

from llmcli.estimate.activation_factors import factors_of
from llmcli.estimate.architecture import Architecture
from llmcli.estimate.counts import NOTHING
from llmcli.estimate.dtypes import Format
from llmcli.estimate.facts import Attention, Latent, Mixer, Recurrence

_FLOAT32 = 4
_MATRICES = 3
"""An expert's: gate, up and down projection."""

_WINDOW_MASKS = 3
"""A window's mask is three of its size while it is made."""


@dataclass(frozen=True, slots=True)
class Forward:
    """One forward of `batch` sequences. tokens: new ones of each; held: those that its cache holds with them."""

    batch: int
    tokens: int
    held: int

    @property
    def new(self) -> int:
        """New tokens of all sequences."""
        return self.batch * self.tokens


@dataclass(frozen=True, slots=True)
class Activations:
    """Sizes for one model. element: bytes of a number that it computes with; kv: the format of its cache.

    mixers: the different ones of its layers; used: the most experts of a layer that compute a token; routed: channels
    inside those. shared: channels of the MLP beside them: all of a dense one, those of shared experts.
    """

    model: Architecture
    element: int
    kv: Format
    mixers: frozenset[Mixer]
    used: int
    routed: int
    shared: int

    def peak(self, forward: Forward) -> int:
        """Bytes at the largest moment of a forward."""
        attention = max((self._attention(mixer, forward) for mixer in self.mixers), default=0)
        return max(
            self._masks_made(forward),
            self._masks(forward) + self._rotation(forward) + max(attention, self._mlp(forward)),
            forward.batch * self.model.vocabulary * (self.element + _FLOAT32),
        )

    def step(self, batch: int, held: int) -> int:
        """Bytes at the largest moment of a decode step: one layer's cache as it grows, or as it is expanded."""
        grown = max((self._grown(mixer, held) for mixer in self.mixers), default=0)
        return max(batch * grown, self.peak(Forward(batch, 1, 1)))

    def _rotation(self, forward: Forward) -> int:
        """Cosines and sines of the positions, one of each per channel of a head, the same for all sequences."""
        return 2 * forward.tokens * self.model.head_dim * self.element

    def _mlp(self, forward: Forward) -> int:
        model, factors = self.model, factors_of(self.model)
        inside = factors.mlp * self.shared
        if self.used:
            outputs = self.used * model.hidden
            inside = max(inside, factors.inside * self.routed + outputs, factors.routed * outputs)
        scores = forward.held * model.heads if factors.score_bytes else 0  # attention returns them
        return forward.new * (factors.hidden * model.hidden + inside + scores) * self.element

    def _attention(self, mixer: Mixer, forward: Forward) -> int:
        hidden = 3 * self.model.hidden
        match mixer:
            case Attention():
                return self._heads(mixer, forward) + forward.new * hidden * self.element
            case Latent():
                queries = mixer.heads * (2 * mixer.nope_dim + 3 * mixer.rope_dim + 2 * mixer.value_dim)
                rows = forward.batch * _seen(mixer.window, forward) * _expanded(mixer)
                return (forward.new * (hidden + queries) + rows) * self.element + self._float_mask(mixer, forward)
            case Recurrence():
                return forward.new * (hidden + 6 * mixer.conv_channels) * self.element
        return 0

    def _heads(self, mixer: Attention, forward: Forward) -> int:
        """Attention of several heads: as their positions are rotated, or while the kernel runs.

        Without a mask the kernel shares keys and values between heads, and takes less than the rotation.
        """
        factors = factors_of(self.model)
        width = forward.new * self.model.heads * max(mixer.key_dim, mixer.value_dim) * self.element
        rotated = factors.queries * width
        repeated = self._repeated(mixer, forward.batch * _seen(mixer.window, forward)) * self.element
        if factors.score_bytes:
            scores = forward.new * self.model.heads * _seen(mixer.window, forward) * factors.score_bytes
            return rotated + repeated + scores + 2 * forward.tokens * forward.held * self.element
        if not self._keys(mixer, forward):
            return rotated
        return max(rotated, repeated + 3 * width + self._float_mask(mixer, forward))

    def _repeated(self, mixer: Attention, rows: int) -> int:
        """Numbers of keys and values once there is one per attention head, where they were fewer."""
        if (mixer.cached_heads or mixer.kv_heads) >= self.model.heads:
            return 0
        return rows * self.model.heads * (mixer.key_dim + mixer.value_dim)

    def _keys(self, mixer: Mixer, forward: Forward) -> int:
        """Keys that a mask covers; 0 where none is needed: one token, or a whole prompt that all windows hold."""
        if not isinstance(mixer, (Attention, Latent)) or forward.tokens == 1:
            return 0
        windowed = mixer.window is not None and mixer.window < forward.held
        return _seen(mixer.window, forward) if windowed or forward.tokens < forward.held else 0

    def _float_mask(self, mixer: Mixer, forward: Forward) -> int:
        """The kernel's copy of a mask, one per sequence, in the numbers that attention computes with."""
        return forward.new * self._keys(mixer, forward) * self.element

    def _masks(self, forward: Forward) -> int:
        """Masks of bytes, one per kind of window, as long as the forward lasts."""
        if factors_of(self.model).score_bytes:
            return 0
        seen = {getattr(mixer, "window", None): self._keys(mixer, forward) for mixer in self.mixers}
        return forward.tokens * sum(seen.values())

    def _masks_made(self, forward: Forward) -> int:
        windows = [mixer for mixer in self.mixers if isinstance(mixer, (Attention, Latent)) and mixer.window]
        return _WINDOW_MASKS * forward.tokens * max((self._keys(mixer, forward) for mixer in windows), default=0)

    def _grown(self, mixer: Mixer, held: int) -> int:
        match mixer:
            case Attention():
                rows = held if mixer.window is None else min(held, mixer.window)
                width = mixer.key_dim if mixer.window is None else mixer.key_dim + mixer.value_dim
                copied = self._copied(rows * (mixer.cached_heads or mixer.kv_heads) * width)
                repeated = self._repeated(mixer, rows) if factors_of(self.model).score_bytes else 0
                return copied + repeated * self.element
            case Latent():
                rows = held if mixer.window is None else min(held, mixer.window)
                return rows * _expanded(mixer) * self.element + self._copied(rows * mixer.rank)
        return 0

    def _copied(self, numbers: int) -> int:
        """torch.cat makes new tensors: a layer's keys, then its values, a window's at once; quantized: dequantized."""
        if self.kv.elements == 1 and self.kv.bytes >= 2:
            return numbers * self.kv.bytes
        return numbers * (self.element + 2 * _FLOAT32)


def activations_of(model: Architecture, element: int, kv: Format) -> Activations:
    """Sizes for `model`, computing with numbers of `element` bytes."""
    mixers = frozenset(mixer for layer in model.layers for mixer in layer.mixers)
    sparse = max((layer.count for layer in model.layers), key=lambda count: count.used, default=NOTHING)
    used, routed = sparse.used, (sparse.experts - sparse.idle) // max(1, _MATRICES * model.hidden)
    shared = max(0, model.intermediate - routed)
    if factors_of(model).all_experts and routed:
        times = sparse.experts / (sparse.experts - sparse.idle)
        used, routed = round(used * times), round(routed * times)
    return Activations(model, element, kv, mixers, used, routed, shared)


def _expanded(mixer: Latent) -> int:
    """Numbers that one row of latent attention becomes: keys without positions and values, then whole keys of them."""
    return mixer.heads * (2 * mixer.nope_dim + mixer.rope_dim + mixer.value_dim)


def _seen(window: int | None, forward: Forward) -> int:
    """Keys that are there for the new tokens: those before them as far as a window keeps them, and their own."""
    before = forward.held - forward.tokens
    return forward.tokens + (before if window is None else min(before, window - 1))
