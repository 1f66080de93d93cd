"""What a forward takes: bytes of all tensors alive at once, on torch's meta device, beside weights and cache."""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from oracle import resident_bytes
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import DynamicCache, PreTrainedModel


class Live(TorchDispatchMode):
    """Counts the bytes of storages while any tensor uses them. peak: the most since it was last set to 0."""

    def __init__(self, ours: set[int]) -> None:
        super().__init__()
        self.ours, self.known, self.now, self.peak = ours, {}, 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                self._see(leaf.untyped_storage())
        return out

    def _see(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self.known or key in self.ours:
            return
        self.known[key] = storage.nbytes()
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._gone, key)

    def _gone(self, key: int) -> None:
        self.now -= self.known.pop(key)


def fused_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask=None, **_: Any):
    """As a fused kernel takes it: no scores, and a boolean mask as numbers."""
    mask = None if attn_mask is None else attn_mask.to(query.dtype)
    del mask
    return query.new_empty((*query.shape[:-1], value.shape[-1]))


@contextmanager
def fused(monkeypatch: Any) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", fused_attention)
        yield


def forward_peaks(model: PreTrainedModel, batch: int, prompt: int, chunk: int | None, steps: int = 0) -> list[int]:
    """The peak of each forward of a prompt in chunks, and of decode steps, less what the cache then holds."""
    cache, ids = DynamicCache(config=model.config), torch.zeros(batch, prompt, dtype=torch.long, device="meta")
    ours = {t.untyped_storage()._cdata for t in (*model.parameters(), *model.buffers(), ids)}
    peaks = []
    starts = [*range(0, prompt, chunk or prompt), *[None] * steps]
    with torch.no_grad(), Live(ours) as live:
        for start in starts:
            live.peak = 0
            piece = ids[:, :1] if start is None else ids[:, start : start + (chunk or prompt)]
            model(input_ids=piece, cache=cache, use_cache=True, logits_to_keep=1)
            peaks.append(live.peak - resident_bytes(cache))
    return peaks
