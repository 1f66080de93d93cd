"""Ways into the engine that import torch on the inference thread.

Python delivers Ctrl-C to the main thread, and inside torch's import it can end the process with an abort. The main
thread therefore waits in plain Python, where an interrupt ends in words at any time.
"""

from typing import TYPE_CHECKING

from llmcli.engine.conversion import Conversion
from llmcli.engine.thread import InferenceThread
from llmcli.errors import LlmcliError
from llmcli.inference import LoadRequest

if TYPE_CHECKING:
    from llmcli.engine.local import LocalEngine


def start_engine(request: LoadRequest) -> "LocalEngine":
    """Start the inference thread and load a model on it; raises what `engine.load.load` raises."""
    thread = InferenceThread()

    def job() -> "LocalEngine":
        try:
            from llmcli.engine.local import LocalEngine
        except OSError as error:  # torch wants a directory for temporary files as soon as it is imported
            message = f"torch cannot be imported: {error.strerror or error}"
            raise LlmcliError(message, "Is the disk full? Free some space, or set TMPDIR to another disk.") from error

        return LocalEngine.load(request, thread)

    return thread.call(job)


def start_conversion(conversion: Conversion) -> None:
    """Convert a GGUF file on a thread of its own; raises what `engine.convert.convert` raises."""
    thread = InferenceThread()

    def job() -> None:
        from llmcli.engine.convert import convert

        convert(conversion)

    try:
        thread.call(job)
    finally:
        thread.close()
