"""A model that loads while a person already types."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from llmcli.errors import DEBUG_HINT, EngineFault, LlmcliError
from llmcli.inference import Cancel, Engine


class Loading:
    """Loads an engine on a thread of its own, once it is told to begin; what that raises is an LlmcliError."""

    def __init__(self, load: Callable[[], Engine]) -> None:
        self._load = load
        self._future: Future[Engine] = Future()
        self._begun = threading.Event()

    def begin(self, when_done: Callable[[], None]) -> None:
        """Start loading, unless that has happened; `when_done` is called on the loading thread, whatever came of it."""
        if self._begun.is_set():
            return
        self._begun.set()

        def work() -> None:
            try:
                self._future.set_result(self._load())
            except LlmcliError as error:
                self._future.set_exception(error)
            except BaseException as error:  # noqa: BLE001 - it is raised again where the engine is asked for
                fault = EngineFault(f"loading failed: {type(error).__name__}: {error}", DEBUG_HINT)
                fault.__cause__ = error
                self._future.set_exception(fault)
            when_done()

        threading.Thread(target=work, name="loading", daemon=True).start()

    @property
    def done(self) -> bool:
        """Whether loading has ended, well or not."""
        return self._future.done()

    @property
    def engine(self) -> Engine | None:
        """The engine, or None while it loads. Raises what loading raised."""
        return self._future.result() if self._future.done() else None

    def check(self) -> None:
        """Raise what loading raised, if it has failed by now."""
        if self._future.done():
            self._future.result()

    def close(self) -> None:
        """End the engine's thread, if there is an engine."""
        if self._future.done() and self._future.exception() is None:
            self._future.result().close()

    def wait(self, cancel: Cancel) -> Engine | None:
        """The engine as soon as there is one, None when `cancel` is set before. Raises what loading raised."""
        while not self._future.done() and not cancel.is_set():
            time.sleep(0.02)
        return self.engine
