"""What each decoder layer keeps in the KV cache, and how many bytes that is.

One specification per layer, equal neighbours and strangers alike gathered into groups. A layer that attends to all
tokens keeps K and V of every token; one with a window keeps the last `max_tokens` once decode has begun, although the
end of prefill still holds them all; a layer with recurrent state keeps a fixed number of bytes.
"""

from dataclasses import dataclass

FULL_ATTENTION = "full_attention"
SLIDING_ATTENTION = "sliding_attention"


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """One layer's share of the cache, for one sequence.

    kind: transformers' name of the layer type. keys, values: elements per token (KV heads × head dimension).
    max_tokens: the most tokens held once decode has begun; None holds all. state_bytes: held whatever the length.
    """

    kind: str
    keys: int
    values: int
    max_tokens: int | None = None
    state_bytes: int = 0

    def steady_bytes(self, tokens: int, element: int) -> int:
        """Bytes after at least one decode step with `tokens` held; element: bytes per number."""
        held = tokens if self.max_tokens is None else min(tokens, self.max_tokens)
        return held * self.token_bytes(element) + self.state_bytes

    def peak_bytes(self, tokens: int, element: int) -> int:
        """Bytes at the end of a prefill of `tokens`.

        transformers keeps the whole prompt, also of a window, until the first decode step.
        """
        return tokens * self.token_bytes(element) + self.state_bytes

    def token_bytes(self, element: int) -> int:
        """Bytes per token held."""
        return (self.keys + self.values) * element


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """`count` layers with the same specification."""

    spec: LayerSpec
    count: int


Layers = tuple[LayerGroup, ...]


def steady_bytes(layers: Layers, tokens: int, element: int) -> int:
    """KV bytes of one sequence that holds `tokens` after decode has begun."""
    return sum(group.count * group.spec.steady_bytes(tokens, element) for group in layers)


def peak_bytes(layers: Layers, tokens: int, element: int) -> int:
    """KV bytes of one sequence at the end of a prefill of `tokens`."""
    return sum(group.count * group.spec.peak_bytes(tokens, element) for group in layers)


def first_token_bytes(layers: Layers, element: int) -> int:
    """Bytes that a token costs while the context is short: every layer keeps it."""
    return sum(group.count * group.spec.token_bytes(element) for group in layers)


def asymptotic_token_bytes(layers: Layers, element: int) -> int:
    """Bytes that a token costs once all windows are full."""
    return sum(group.count * group.spec.token_bytes(element) for group in layers if group.spec.max_tokens is None)


def fixed_bytes(layers: Layers) -> int:
    """Bytes of one sequence that do not depend on its length."""
    return sum(group.count * group.spec.state_bytes for group in layers)
