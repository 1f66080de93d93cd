"""A request's events become text on a screen and a record."""

import itertools
import threading
from dataclasses import replace

import pytest
from traces import INFO, trace_of

from llmcli.chat.answer import answer
from llmcli.errors import EngineFault, OutputClosed
from llmcli.inference import Finished, GenerateRequest, Piece, PrefillProgress, Sampling

REQUEST = GenerateRequest((1, 2), Sampling(0.0, 1.0, 0, 0.0, 1.0, None, 10))


class FakeEngine:
    """Answers with the given pieces, in ticks of a clock that counts."""

    info = INFO

    def __init__(self, pieces, rest="", **trace):
        ticks = itertools.count(100)
        self.clock = lambda: float(next(ticks))
        self._pieces, self._rest, self._trace = pieces, rest, trace
        self.cancelled_after = None

    def generate(self, request, cancel):
        submitted = self.clock()
        started, prefilled = self.clock(), self.clock()
        arrivals = []
        yield PrefillProgress(2, 2)
        reason = self._trace.pop("finish_reason", "eos")
        for piece in self._pieces:
            if cancel.is_set():
                self.cancelled_after = len(arrivals)
                reason = "interrupted"
                break
            arrivals.append(self.clock())
            yield Piece(5, piece, arrivals[-1])
        trace = {"submitted": submitted, "taken": submitted, "templated": submitted, "tokenized": started}
        trace |= {"prefill_started": started, "prefill_ended": prefilled, "arrivals": tuple(arrivals)}
        yield Finished(self._rest, trace_of(**trace, ended=self.clock(), finish_reason=reason, **self._trace))

    def close(self):
        pass


class Screen:
    def __init__(self, closes_after=None):
        self.writes, self.progress = [], []
        self._closes_after = closes_after

    def prefill(self, evaluated, total):
        self.progress.append((evaluated, total))

    def write(self, text):
        if self._closes_after is not None and len(self.writes) >= self._closes_after:
            raise OutputClosed
        self.writes.append(text)


def test_every_piece_is_written_when_it_comes():
    screen = Screen()
    result = answer(FakeEngine(["Hel", "", "lo"], "!"), REQUEST, screen, threading.Event())
    assert screen.writes == ["Hel", "lo", "!"]
    assert result.text == "Hello!"
    assert result.error is None
    seconds = result.record.seconds
    assert seconds.ttft + seconds.decode + seconds.tail == seconds.total
    assert seconds.ttft < seconds.first_text < seconds.total


def test_pieces_that_are_known_together_are_written_together():
    class Bursts(FakeEngine):
        def generate(self, request, cancel):
            for event in super().generate(request, cancel):
                yield replace(event, more=event.text in "ac") if isinstance(event, Piece) else event

    screen = Screen()
    result = answer(Bursts(list("abc"), "!"), REQUEST, screen, threading.Event())
    assert screen.writes == ["ab", "c!"]  # the end shows what is left
    assert result.text == "abc!"


def test_without_streaming_the_same_text_comes_at_once():
    screen = Screen()
    result = answer(FakeEngine(["Hel", "", "lo"], "!"), REQUEST, screen, threading.Event(), stream=False)
    assert screen.writes == ["Hello!"]
    assert result.text == "Hello!"
    assert result.record.seconds.total == result.record.seconds.first_text


def test_the_wait_for_weights_is_outside_total():
    result = answer(FakeEngine(["a"]), REQUEST, Screen(), threading.Event(), load_wait=50.0)
    assert result.record.seconds.load_wait == 50
    assert result.record.seconds.total < 50


def test_a_closed_reader_ends_the_request_and_keeps_the_record():
    engine = FakeEngine(list("abcdefgh"))
    result = answer(engine, REQUEST, Screen(closes_after=2), threading.Event())
    assert isinstance(result.error, OutputClosed)
    assert engine.cancelled_after == 3
    assert result.record.finish_reason == "interrupted"
    assert result.record.tokens.generated == 3


def test_an_interrupt_keeps_what_was_said():
    cancel = threading.Event()

    class Interrupting(Screen):
        def write(self, text):
            super().write(text)
            if text == "b":
                cancel.set()

    result = answer(FakeEngine(list("abcdef")), REQUEST, Interrupting(), cancel)
    assert (result.text, result.record.finish_reason) == ("ab", "interrupted")


def test_a_failure_is_part_of_the_record_and_comes_after_the_text():
    fault = EngineFault("answering failed: boom")
    result = answer(FakeEngine(["a"], error=fault, finish_reason="error"), REQUEST, Screen(), threading.Event())
    assert result.text == "a"
    assert result.error is fault
    assert (result.record.error.type, result.record.error.message) == ("EngineFault", "answering failed: boom")


@pytest.mark.parametrize("pieces", [[], [""]])
def test_an_answer_without_text_has_no_first_text(pieces):
    result = answer(FakeEngine(pieces), REQUEST, Screen(), threading.Event())
    assert (result.text, result.record.seconds.first_text) == ("", None)
