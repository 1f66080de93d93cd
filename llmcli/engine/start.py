"""Ways into the engine that import torch on the inference thread.

Python delivers Ctrl-C to the main thread, and inside torch's import it can end the process with an abort. The main
thread therefore waits in plain Python, where an interrupt ends in words at any time.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from llmcli.engine.conversion import Conversion
from llmcli.engine.thread import InferenceThread
from llmcli.errors import DEBUG_HINT, LlmcliError
from llmcli.inference import LoadRequest

if TYPE_CHECKING:
    from llmcli.engine.local import LocalEngine


_NO_ROOM = {errno.ENOENT, errno.ENOSPC, errno.EDQUOT}


@contextmanager
def _importing() -> Iterator[None]:
    """Around the import of torch, which wants a directory for temporary files. Raises LlmcliError where it fails."""
    try:
        yield
    except (OSError, ImportError) as error:
        full = isinstance(error, OSError) and error.errno in _NO_ROOM
        hint = "Is the disk full? Free some space, or set TMPDIR to another disk." if full else DEBUG_HINT
        raise LlmcliError(f"torch cannot be imported: {error}", hint) from error


def start_engine(request: LoadRequest) -> "LocalEngine":
    """Start the inference thread and load a model on it; raises what `engine.load.load` raises."""
    thread = InferenceThread()

    def job() -> "LocalEngine":
        with _importing():
            from llmcli.engine.local import LocalEngine

        return LocalEngine.load(request, thread)

    return thread.call(job)


def start_following(request: LoadRequest) -> None:
    """Load this process's part of a model on the inference thread, and serve the process that talks until it ends."""
    thread = InferenceThread()

    def job() -> None:
        with _importing():
            from llmcli.engine.local import follow_leader

        follow_leader(request)

    thread.call(job)


def start_conversion(conversion: Conversion) -> None:
    """Convert a GGUF file on a thread of its own; raises what `engine.convert.convert` raises."""
    thread = InferenceThread()

    def job() -> None:
        with _importing():
            from llmcli.engine.convert import convert

        convert(conversion)

    try:
        thread.call(job)
    finally:
        thread.close()
