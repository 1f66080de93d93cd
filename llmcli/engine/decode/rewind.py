"""Taking back the last tokens of a cache."""

from typing import Any


class Rewind:
    """Takes tokens back from a cache to which they were given on trial.

    Once `to` has been called, sliding layers keep what leaves their windows until the next call tells how many tokens
    stay, never fewer than at the call before. It is first called after the prompt, whose K and V would pile up there.
    """

    def __init__(self, cache: Any) -> None:
        self._cache = cache
        self._recording = False

    def to(self, tokens: int) -> None:
        """Leave the first `tokens` tokens in the cache."""
        if not self._recording:
            self._cache.activate_past_recording()
            self._recording = True
        self._cache.crop(tokens - self._cache.get_seq_length())

    def end(self, tokens: int) -> None:
        """Leave the first `tokens` tokens, and let sliding layers drop what leaves their windows from now on."""
        if not self._recording:
            return
        self.to(tokens)
        self._recording = False
        for layer in self._cache.layers:
            if hasattr(layer, "record_past"):
                layer.record_past = False
