"""Foreign exceptions to our own, where they cross into the product."""

import torch

from llmcli.errors import EngineFault, LlmcliError, OutOfMemory

_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "cannot allocate memory")


def translate(error: BaseException, doing: str, cure: str) -> LlmcliError:
    """The error that tells a person what happened while `doing`; `cure`: what to change when memory ran out."""
    if isinstance(error, LlmcliError):
        return error
    ours: LlmcliError
    if _is_oom(error):
        ours = OutOfMemory(f"out of memory while {doing}: {_first_line(error)}", cure)
    else:
        what = f"{doing} failed: {type(error).__name__}: {_first_line(error)}"
        ours = EngineFault(what, "`llmcli --debug …` shows the traceback.")
    ours.__cause__ = error
    return ours


def _is_oom(error: BaseException) -> bool:
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in _OUT_OF_MEMORY)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
