"""Foreign exceptions to our own, where they cross into the product."""

import traceback

import torch

from llmcli.errors import DEBUG_HINT, EngineFault, LlmcliError, OutOfMemory

_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "cannot allocate memory")


def translate(error: BaseException, doing: str, cure: str) -> LlmcliError:
    """The error that tells a person what happened while `doing`; `cure`: what to change when memory ran out."""
    if isinstance(error, LlmcliError):
        return error
    let_go(error)
    ours: LlmcliError
    if _is_oom(error):
        ours = OutOfMemory(f"out of memory while {doing}: {reason_of(error)}", cure)
    else:
        what = f"{doing} failed: {type(error).__name__}: {reason_of(error)}"
        ours = EngineFault(what, DEBUG_HINT)
    ours.__cause__ = error
    return ours


def let_go(error: BaseException) -> None:
    """Empty the frames of `error` and of those behind it: they hold tensors, and our error outlives the request."""
    pending, seen = [error], set()
    while pending:
        one = pending.pop()
        seen.add(id(one))
        traceback.clear_frames(one.__traceback__)
        behind = (one.__cause__, one.__context__)
        pending.extend(other for other in behind if other is not None and id(other) not in seen)


def _is_oom(error: BaseException) -> bool:
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in _OUT_OF_MEMORY)


def reason_of(error: BaseException) -> str:
    """The words of a library's exception in one line of readable length."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:299]}…"
