"""Steps from the inference thread to the reader: all of them, in order, the first and the last without a wait."""

import threading
from queue import SimpleQueue

from llmcli.engine import handover
from llmcli.engine.generate import Generated
from llmcli.engine.handover import Handover
from llmcli.inference import PrefillProgress

LONG = 60.0


def generated(at):
    return Generated((at,), float(at), None)


def reading(steps):
    """What a reader on a thread of its own has come to, and the thread."""
    read = SimpleQueue()

    def read_all():
        for step in steps:
            read.put(step)
        read.put(None)

    thread = threading.Thread(target=read_all, daemon=True)
    thread.start()
    return read, thread


def test_neither_progress_nor_the_first_position_waits_for_a_frame(monkeypatch):
    monkeypatch.setattr(handover, "FRAME", 10 * LONG)
    steps = Handover()
    read, thread = reading(steps)
    given = [PrefillProgress(0, 3), PrefillProgress(3, 3), generated(0)]
    for step in given:
        steps.put(step)
        assert read.get(timeout=LONG) is step
    steps.end()
    thread.join(LONG)
    assert not thread.is_alive()


def test_the_end_brings_what_waited_for_a_frame_at_once_and_in_order(monkeypatch):
    monkeypatch.setattr(handover, "FRAME", 10 * LONG)
    steps = Handover()
    read, thread = reading(steps)
    given = [generated(at) for at in range(5)]
    steps.put(given[0])
    assert read.get(timeout=LONG) is given[0]
    for step in given[1:]:
        steps.put(step)
    steps.end()
    assert [read.get(timeout=LONG) for _ in range(5)] == [*given[1:], None]
    thread.join(LONG)
    assert not thread.is_alive()


def test_a_position_that_comes_after_a_frame_wakes_the_reader(monkeypatch):
    monkeypatch.setattr(handover, "FRAME", 0.0)
    steps = Handover()
    read, _ = reading(steps)
    for at in range(3):
        steps.put(generated(at))
        assert read.get(timeout=LONG).token_id == at
    steps.end()
    assert read.get(timeout=LONG) is None


def test_a_reader_that_comes_late_gets_everything():
    steps = Handover()
    given = [generated(at) for at in range(4)]
    for step in given:
        steps.put(step)
    steps.end()
    assert list(steps) == given
