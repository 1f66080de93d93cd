"""One request to one answer: events in, text out as it comes, a record at the end."""

import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from llmcli.errors import LlmcliError, OutputFailed
from llmcli.inference import Engine, Finished, GenerateRequest, Piece, PrefillProgress, Trace
from llmcli.metrics.phases import Delivery
from llmcli.metrics.record import RequestRecord, record_of


class Screen(Protocol):
    """Where an answer goes."""

    def prefill(self, evaluated: int, total: int) -> None:
        """Show how far the prompt has been evaluated."""
        ...

    def write(self, text: str) -> None:
        """Show `text` at once. Raises OutputClosed when nobody reads any more, OutputFailed."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a request. `error`: what it has to end with, after text and figures have been shown.

    notices: what there is to say about how it was served.
    """

    text: str
    record: RequestRecord
    error: LlmcliError | None
    notices: tuple[str, ...] = ()


class _Delivering:
    """Writes pieces to the screen and notes when: as they come, or all at the end."""

    def __init__(self, engine: Engine, screen: Screen, cancel: threading.Event, *, stream: bool) -> None:
        self._clock = engine.clock
        self._screen = screen
        self._cancel = cancel
        self._stream = stream
        self._busy = 0.0
        self._waiting = ""
        self.first: float | None = None
        self.text = ""
        self.failed: OutputFailed | None = None

    def add(self, text: str, *, more: bool = False) -> None:
        """Take more text; it is shown together with what comes next where that is known already (`more`)."""
        self.text += text
        self._waiting += text
        if self._stream and not more:
            self._show()

    def finish(self, text: str, load_wait: float) -> Delivery:
        self.add(text)
        self._show()
        delivered = self.first if self.first is not None and not self._stream else self._clock()
        return Delivery(self.first, delivered, self._busy, len(self.text), load_wait)

    def _show(self) -> None:
        text, self._waiting = self._waiting, ""
        if not text or self.failed:
            return
        started = self._clock()
        try:
            self._screen.write(text)
        except OutputFailed as error:
            self.failed = error
            self._cancel.set()
        now = self._clock()
        self._busy += now - started
        if self.first is None:
            self.first = now


def answer(
    engine: Engine,
    request: GenerateRequest,
    screen: Screen,
    cancel: threading.Event,
    *,
    stream: bool = True,
    load_wait: float = 0.0,
) -> Answer:
    """Run `request` and deliver its text; whatever ends it, text and record are kept.

    A reader that goes away ends the request. Raises UsageError when the prompt cannot be used.
    """
    started_at = datetime.now(UTC)
    delivering = _Delivering(engine, screen, cancel, stream=stream)
    trace: Trace | None = None
    delivery: Delivery | None = None
    for event in engine.generate(request, cancel):
        if isinstance(event, PrefillProgress):
            screen.prefill(event.evaluated, event.total)
        elif isinstance(event, Piece):
            delivering.add(event.text, more=event.more)
        elif isinstance(event, Finished):
            trace = event.trace
            delivery = delivering.finish(event.text, load_wait)
    if trace is None or delivery is None:
        raise AssertionError("an engine ends every request with Finished")
    record = record_of(engine.info, request, trace, delivery, command="chat", started_at=started_at)
    return Answer(delivering.text, record, delivering.failed or trace.error, trace.notices)
