"""Which decode path serves a request."""

from collections.abc import Sequence
from typing import Any

import torch

from llmcli.engine.decode.compiled import CompiledPath
from llmcli.engine.decode.draft_model import ModelDrafter
from llmcli.engine.decode.drafts import Drafter
from llmcli.engine.decode.eager import EagerPath
from llmcli.engine.decode.graph import GraphPath
from llmcli.engine.decode.ngram import NgramDrafter
from llmcli.engine.decode.path import DecodePath
from llmcli.engine.decode.speculative import SpeculativePath
from llmcli.engine.live_cache import LiveCache
from llmcli.engine.loaded import Loaded
from llmcli.engine.sample import Sampler


def begin_path(
    loaded: Loaded, cache: Any, sampler: Sampler, prompt: torch.Tensor, *, live: LiveCache, room: int
) -> DecodePath:
    """The path for one request, on `cache`, which holds the start of `prompt` (rows, n); it stays to the end of it.

    live: the cache between requests that `cache` belongs to. room: the most tokens that the answer may have.
    """
    if len(prompt) == 1 and cache.is_croppable:
        ids: list[int] = prompt[0].tolist()
        if (drafter := _drafter(loaded, live, ids)) is not None:
            return SpeculativePath(loaded.model, cache, sampler, drafter, prompt=ids, room=room)
    if loaded.graphs is not None:
        return GraphPath(loaded.graphs, cache, sampler, prompt)
    step = None if loaded.compiled is None else loaded.compiled.ready(len(prompt))
    if step is not None:
        return CompiledPath(step, loaded.model, cache, sampler)
    return EagerPath(loaded.model, cache, sampler)


def _drafter(loaded: Loaded, live: LiveCache, prompt: Sequence[int]) -> Drafter | None:
    """What drafts for the request, or None without speculation."""
    if loaded.draft is not None and live.draft is not None:
        return ModelDrafter(loaded.draft, live.draft, prompt, loaded.info.vocab_size)
    return NgramDrafter() if loaded.lookup else None
