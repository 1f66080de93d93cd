"""A loaded model and the decode steps that are captured as CUDA graphs."""

from collections.abc import Iterator
from dataclasses import replace

from llmcli import ranks
from llmcli.engine.decode.cuda_graph import CudaRecorder
from llmcli.engine.decode.graphs import CaptureFailed, Graphs
from llmcli.engine.kv_rows import RowsLayer
from llmcli.engine.loaded import Loaded
from llmcli.inference import LoadRequest, Trace
from llmcli.prefill_rules import CONTINUABLE

_ATTENTION = {"sdpa", "eager"}
"""What leaves rows out by the masks that transformers makes for static caches."""


def with_graphs(loaded: Loaded, request: LoadRequest) -> Loaded:
    """The model with its smallest step captured, if decode may be captured and that works; part of loading.

    What was asked for by name and cannot be had is a notice, and so is a capture that fails.
    """
    if request.decode not in {"auto", "graph"}:
        return loaded
    if (why_not := next(_hindrances(loaded), None)) is not None:
        return loaded.noting(f"--decode graph: {why_not}; decode is eager") if request.decode == "graph" else loaded
    device = loaded.device
    graphs = Graphs(loaded.model, lambda: CudaRecorder(device), limit=loaded.info.context_limit)
    try:
        graphs.prepare()
    except CaptureFailed:
        return loaded.noting(*graphs.report().notices)
    seconds = loaded.info.load_seconds + graphs.report().seconds
    return replace(loaded, graphs=graphs, info=replace(loaded.info, load_seconds=seconds))


def _hindrances(loaded: Loaded) -> Iterator[str]:
    """Why the steps of a model cannot be captured."""
    config = loaded.model.config
    if loaded.device.type != "cuda":
        yield f"CUDA graphs need a CUDA device, and this is {loaded.device}"
    if len(loaded.devices) > 1 or ranks.world() > 1:
        yield "a graph belongs to one device, and several work on the model"
    if loaded.draft is not None or loaded.lookup:
        yield "drafts make steps of changing length"
    if loaded.info.quant == "int8":
        yield "LLM.int8 waits for the device in every layer"
    if config.model_type not in CONTINUABLE:
        yield f"{config.model_type!r} models keep more than K and V"
    if config._attn_implementation not in _ATTENTION:
        yield f"attention {config._attn_implementation} takes no mask for unused rows"
    if not any(isinstance(layer, RowsLayer) for layer in loaded.kv.new(config).layers):
        yield "K and V are not kept as the model makes them"


def with_captures(trace: Trace, loaded: Loaded) -> Trace:
    """The trace with what was captured for its request."""
    if loaded.graphs is None:
        return trace
    captures = loaded.graphs.report()
    return replace(trace, capture_seconds=captures.seconds, notices=(*trace.notices, *captures.notices))


def let_go(loaded: Loaded) -> None:
    """Give up what was captured, for its memory; it is captured again when it is needed."""
    if loaded.graphs is not None:
        loaded.graphs.drop()
