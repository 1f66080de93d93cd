"""Steps from the inference thread to the reader: all of them, in order, and not faster than anyone reads."""

import threading
from queue import SimpleQueue

import pytest

from llmcli.engine.generate import Generated
from llmcli.engine.handover import AT_ONCE, FRAME, Handover
from llmcli.inference import PrefillProgress

LONG = 60.0


def generated(at):
    return Generated((at,), float(at), None)


class Waits:
    """In place of the event that ends a wait: notes each wait, which lasts until it is let go or the end."""

    def __init__(self):
        self.seconds, self._go = SimpleQueue(), threading.Semaphore(0)

    def wait(self, seconds):
        if seconds > 0:
            self.seconds.put(seconds)
            assert self._go.acquire(timeout=LONG)

    def let_go(self):
        self._go.release()

    set = let_go


@pytest.fixture
def steps():
    """A handover at a time that stands still."""
    steps = Handover(clock=lambda: 100.0)
    steps._ended = Waits()
    return steps


@pytest.fixture
def read(steps):
    """What a reader on a thread of its own has come to, None at the end."""
    read = SimpleQueue()

    def read_all():
        for step in steps:
            read.put(step)
        read.put(None)

    thread = threading.Thread(target=read_all, daemon=True)
    thread.start()
    yield read
    thread.join(LONG)
    assert not thread.is_alive()


def begin(steps, read):
    """Progress and the first positions, of which nothing waits for a frame."""
    for step in (PrefillProgress(0, 3), PrefillProgress(3, 3), *map(generated, range(AT_ONCE))):
        steps.put(step)
        assert read.get(timeout=LONG) is step


def test_later_positions_wait_for_a_frame_and_are_read_together(steps, read):
    begin(steps, read)
    assert steps._ended.seconds.get(timeout=LONG) == pytest.approx(FRAME)
    given = [generated(at) for at in range(10, 15)]
    for step in given:
        steps.put(step)
    assert read.empty()  # the reader waits for the frame, whatever has come
    steps._clock = lambda: 100.0 + FRAME
    steps._ended.let_go()
    assert [read.get(timeout=LONG) for _ in given] == given
    assert steps._ended.seconds.get(timeout=LONG) == pytest.approx(FRAME)  # one frame for all of them
    steps.end()
    assert read.get(timeout=LONG) is None


def test_the_end_is_not_waited_for(steps, read):
    begin(steps, read)
    assert steps._ended.seconds.get(timeout=LONG) == pytest.approx(FRAME)
    last = generated(20)
    steps.put(last)
    assert read.empty()
    steps.end()
    assert [read.get(timeout=LONG) for _ in range(2)] == [last, None]


def test_positions_that_take_longer_than_a_frame_are_read_as_they_come(steps, read):
    begin(steps, read)
    steps._ended.seconds.get(timeout=LONG)
    steps._clock = lambda: 101.0  # the frame is over before anything has come
    steps._ended.let_go()
    step = generated(30)
    steps.put(step)
    assert read.get(timeout=LONG) is step
    steps.end()
    assert read.get(timeout=LONG) is None


def test_a_reader_that_comes_late_gets_everything():
    steps = Handover()
    given = [generated(at) for at in range(9)]
    for step in given:
        steps.put(step)
    steps.end()
    assert list(steps) == given


def test_whether_more_can_be_read_is_known():
    steps = Handover()
    assert not steps.more
    steps.put(generated(0))
    assert steps.more
    steps.end()
    assert [steps.more for _ in steps] == [True]
