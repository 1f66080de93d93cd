"""Whether a model fits on one device, or by whole layers on several."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes of a model.

    spread: weights and cache, which are split by layers; each: what every device takes beside its layers; layer: the
    largest single layer with its share of the cache.
    """

    spread: int
    each: int
    layer: int


def headroom(need: Need, vram: Sequence[int]) -> int:
    """Bytes left on the devices that serve best, negative: what is short.

    Devices are filled one after the other with whole layers, so on all but the last up to a layer's room stays empty:
    what fits with that much less fits in any order of layers.
    """
    rooms = sorted((size - need.each for size in vram), reverse=True)
    return max(sum(rooms[:used]) - (used - 1) * need.layer - need.spread for used in range(1, len(rooms) + 1))
