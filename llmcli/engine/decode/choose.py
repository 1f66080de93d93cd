"""Which decode path serves a request."""

from typing import Any

import torch

from llmcli.engine.decode.eager import EagerPath
from llmcli.engine.decode.graph import GraphPath
from llmcli.engine.decode.path import DecodePath
from llmcli.engine.loaded import Loaded
from llmcli.engine.sample import Sampler


def begin_path(loaded: Loaded, cache: Any, sampler: Sampler, prompt: torch.Tensor) -> DecodePath:
    """The path for one request, on `cache`, which holds the start of `prompt` (rows, n); it stays to the end of it."""
    if loaded.graphs is not None:
        return GraphPath(loaded.graphs, cache, sampler, prompt)
    return EagerPath(loaded.model, cache, sampler)
