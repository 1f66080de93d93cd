"""One model in several processes: transformers shards its layers, the first process says what is forwarded.

Started by `torchrun`. Every process loads its part (transformers, distributed/tensor_parallel.py) and runs every
forward, in which the parts of a layer's result are added up by a collective of torch.distributed. What is to be
forwarded is decided by the first process alone and announced to the others before each forward, so that prompts,
sampling, cancels and cache reuse need no second opinion.
"""

import threading
import weakref
from dataclasses import replace
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from llmcli import ranks
from llmcli.engine.cache import crop
from llmcli.engine.failures import reason_of
from llmcli.engine.loaded import Loaded
from llmcli.errors import EngineFault, LlmcliError, ModelError, UsageError

_IDLE = timedelta(days=30)
"""How long a process waits for the next forward: a person may think for long."""

_END, _FORWARD = 0, 1
_FIELDS = 6


def refuse_sharding(config: Any, name: str) -> None:
    """Raise where the layers of a model cannot be shared out among the processes; told from its config."""
    text = config.get_text_config(decoder=True)
    count = ranks.world()
    if not getattr(text, "base_model_tp_plan", None):
        raise ModelError(
            f"transformers knows no way to share {config.model_type!r} models out among {count} processes",
            "Start llmcli without torchrun, or spread whole layers: --device-map auto.",
        )
    heads = text.num_attention_heads
    kv_heads = getattr(text, "num_key_value_heads", None) or heads
    if heads % count or kv_heads % count:
        raise UsageError(
            f"{name} has {heads} attention heads and {kv_heads} K/V heads, "
            f"which {count} processes cannot share out evenly",
            "Take a --nproc-per-node that divides both.",
        )


class Led:
    """A model whose forwards the other processes follow. For the rest it is the model itself."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._group = _control_group()
        self._lock = threading.Lock()
        self._cache: weakref.ref[Any] | None = None
        self._serial = 0
        self._ended = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, input_ids: torch.Tensor, cache: Any, **options: Any) -> Any:
        """Announce ids (rows, n), which follow what `cache` holds, and run them. Raises LlmcliError out of step."""
        with self._lock:
            if self._ended:
                raise EngineFault(
                    "the processes that share this model are out of step after a failure", "Start it again."
                )
            self._ended = True  # until this forward has been run by all
            header = (_FORWARD, self._serial_of(cache), cache.get_seq_length(), *input_ids.shape)
            try:
                _send(torch.tensor((*header, options["logits_to_keep"])), self._group)
                _send(input_ids.cpu(), self._group)
                output = self._model(input_ids=input_ids, cache=cache, **options)
            except RuntimeError as error:
                raise _lost(error) from error
            self._ended = False
            return output

    def _serial_of(self, cache: Any) -> int:
        if self._cache is None or self._cache() is not cache:
            self._cache = weakref.ref(cache)
            self._serial += 1
        return self._serial

    def end(self) -> None:
        """Let the others go; for a run that ends in order."""
        with self._lock:
            if not self._ended:
                self._ended = True
                _send(torch.tensor((_END, *[0] * (_FIELDS - 1))), self._group)


def lead(loaded: Loaded) -> Loaded:
    """The model with its forwards announced."""
    return replace(loaded, model=Led(loaded.model))


@torch.inference_mode()
def follow(loaded: Loaded) -> None:
    """Run what the first process announces, until it ends; raises when it is gone."""
    group = _control_group()
    cache: Any = None
    known = 0
    while True:
        kind, serial, held, rows, count, keep = _receive((_FIELDS,), group).tolist()
        if kind == _END:
            return
        ids = _receive((rows, count), group).to(loaded.device)
        if serial != known:
            cache = None  # its memory is free before the new one grows
            cache, known = loaded.kv.new(loaded.model.config), serial
        else:
            crop(cache, held)
        loaded.model(input_ids=ids, cache=cache, use_cache=True, logits_to_keep=keep)


def _control_group() -> Any:
    """A group over the CPU for announcements, whatever the model's own collectives run on."""
    return dist.new_group(backend="gloo", timeout=_IDLE)


def _send(tensor: torch.Tensor, group: Any) -> None:
    dist.broadcast(tensor.contiguous(), src=0, group=group)


def _receive(shape: tuple[int, ...], group: Any) -> torch.Tensor:
    tensor = torch.empty(shape, dtype=torch.long)
    dist.broadcast(tensor, src=0, group=group)
    return tensor


def _lost(error: RuntimeError) -> Exception:
    """A broken connection in words; any other failure as it is."""
    words = str(error).lower()
    if isinstance(error, dist.DistError) or "gloo" in words or "connection" in words:
        return LlmcliError(
            f"another process that holds a part of the model has ended: {reason_of(error)}",
            "torchrun's own report names it; --device-map auto needs one process only.",
        )
    return error
