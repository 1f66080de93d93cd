"""Whether the steps of a model are captured."""

from collections.abc import Iterator
from typing import Any

import torch

from llmcli.engine.cache import new_cache
from llmcli.engine.decode.cuda_graph import CudaRecorder
from llmcli.engine.decode.graphs import CaptureFailed, Graphs
from llmcli.engine.kv_rows import RowsLayer
from llmcli.engine.quantize import quant_of
from llmcli.inference import LoadRequest
from llmcli.prefill_rules import CONTINUABLE

_ATTENTION = {"sdpa", "eager"}
"""What leaves rows out by the masks that transformers makes for static caches."""


def graphs_for(request: LoadRequest, model: Any) -> tuple[Graphs | None, tuple[str, ...]]:
    """The graphs of a model that was loaded as `request` says, the first one captured; with what to say about it.

    None where its steps cannot be captured or something else was asked for.
    """
    if request.decode not in {"auto", "graph"}:
        return None, ()
    if (reason := _hindrance(request, model)) is not None:
        return None, (f"--decode graph: {reason}; decoding eagerly",) if request.decode == "graph" else ()
    device: torch.device = model.device
    graphs = Graphs(model, lambda: CudaRecorder(device))
    try:
        graphs.prepare()
    except CaptureFailed:
        return None, graphs.report().notices
    graphs.report()  # the first capture is part of loading
    return graphs, ()


def _hindrance(request: LoadRequest, model: Any) -> str | None:
    """Why the steps of a model cannot be captured, or None."""
    return next(_hindrances(request, model), None)


def _hindrances(request: LoadRequest, model: Any) -> Iterator[str]:
    config = model.config
    if model.device.type != "cuda":
        yield f"CUDA graphs need a CUDA device, and this is {model.device}"
    if request.spread or request.kv_offload or request.kv_dtype != "auto":
        yield "K and V have to stay as they are on one device"
    if request.speculate != "none" or request.draft is not None:
        yield "drafts make steps of changing length"
    if quant_of(model) == "int8":
        yield "LLM.int8 waits for the device in every layer"
    if config.model_type not in CONTINUABLE:
        yield f"{config.model_type!r} models keep more than K and V"
    if config._attn_implementation not in _ATTENTION:
        yield f"attention {config._attn_implementation} takes no mask for unused rows"
    if not any(isinstance(layer, RowsLayer) for layer in new_cache(config).layers):
        yield "the model keeps no K and V in rows"
