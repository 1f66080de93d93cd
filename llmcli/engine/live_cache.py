"""The KV cache that outlives a request, for the next one to continue."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transformers import DynamicCache

from llmcli.engine.architectures import frequency_switch
from llmcli.engine.cache import crop, croppable, holds, kv_bytes
from llmcli.engine.kv import KvCache
from llmcli.engine.loaded import Loaded
from llmcli.inference import MissReason

Rows = tuple[tuple[int, ...], ...]
"""The ids of each sequence of a batch; usually of one."""


@dataclass(frozen=True, slots=True)
class Match:
    """How far a live cache serves a prompt. The fields mean what they mean in `Trace`."""

    cached: int = 0
    age: float | None = None
    break_at: int | None = None
    miss_reason: MissReason | None = None


class LiveCache:
    """At most one KV cache with the ids whose K and V it holds. Only the inference thread touches it.

    From `begin` until `keep` it vouches for no ids, so a request that fails between them leaves nothing to continue.
    draft: that of the draft model, which goes when this one goes.
    """

    def __init__(self, config: Any, kv: KvCache | None = None, draft: "LiveCache | None" = None) -> None:
        """`config`: the model's; `kv`: how its caches are made."""
        self._config = config
        self._kv = kv or KvCache()
        self.draft = draft
        self._cache: DynamicCache | None = None
        self._rows: Rows = ()
        self._used_at = 0.0
        self._lost = False

    @property
    def bytes(self) -> int:
        """What the cache takes."""
        return 0 if self._cache is None else kv_bytes(self._cache)

    def match(self, prompts: Rows, now: float) -> Match:
        """How much of `prompts`, all of one length, the cache can serve: the common prefix, but never the last ids.

        The last id is always evaluated, because the answer begins with its logits. A prompt that ends inside the cache
        does not break it: nothing that could have been reused is lost.
        """
        if self._cache is None:
            return Match(miss_reason="evicted" if self._lost else None)
        age = now - self._used_at
        length, held = len(prompts[0]), self._length
        same = len(self._rows) == len(prompts)
        common = min(map(common_prefix, self._rows, prompts)) if same else 0
        break_at = common if common < min(held, length) else None
        cached = min(common, length - 1)
        if cached and not self._can_serve(cached, length):
            return Match(0, age, break_at, "not_croppable")
        return Match(cached, age, break_at, None if break_at is None else "prefix_changed")

    @property
    def _length(self) -> int:
        return len(self._rows[0]) if self._rows else 0

    def _can_serve(self, cached: int, prompt: int) -> bool:
        switch = frequency_switch(self._config)
        if switch is not None and max(prompt, self._length) > switch:
            return False
        return cached == self._length or croppable(self._cache)

    def begin(self, cached: int) -> DynamicCache:
        """The cache to run a request in: the first `cached` tokens of this one, as `match` allows, or an empty one."""
        self._rows = ()
        if self._cache is None or cached == 0:
            self._cache = None  # its memory is free before the new one grows
            self._cache = self._kv.new(self._config)
        else:
            crop(self._cache, cached)
        return self._cache

    def keep(self, rows: Rows, now: float) -> None:
        """Vouch for the ids of `rows`, those that have been forwarded; a cache that holds anything else is dropped."""
        if self._cache is None or not holds(self._cache, len(rows[0])):
            self.drop()
            return
        self._rows, self._used_at, self._lost = rows, now, False

    def drop(self) -> None:
        """Give up the cache and its memory, whoever still refers to it (a traceback does, after a failure)."""
        if self._cache is not None:
            self._cache.layers.clear()
            self._lost = True
        self._cache, self._rows = None, ()
        if self.draft is not None:
            self.draft.drop()


def live_cache(loaded: Loaded) -> LiveCache:
    """An empty one for a model and for what drafts for it."""
    draft = loaded.draft
    return LiveCache(loaded.model.config, loaded.kv, None if draft is None else LiveCache(draft.model.config, draft.kv))


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """The number of leading ids that agree."""
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
