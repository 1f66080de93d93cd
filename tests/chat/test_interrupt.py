"""Signals while an answer runs."""

import signal

import pytest

from llmcli.chat import interrupt
from llmcli.chat.interrupt import PATIENCE, cancel_on_interrupt
from llmcli.errors import Interrupted, Terminated


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands until it is set."""
    now = [100.0]
    monkeypatch.setattr(interrupt.time, "monotonic", lambda: now[0])
    return now


def test_the_first_ends_the_answer_and_says_which_it_was():
    for number, error in ((signal.SIGINT, Interrupted), (signal.SIGTERM, Terminated), (signal.SIGHUP, Terminated)):
        with cancel_on_interrupt() as cancel:
            assert not cancel.is_set()
            signal.raise_signal(number)
            assert cancel.is_set()
        with pytest.raises(error):
            cancel.end()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_second_one_at_once_asks_for_nothing_new(clock, number):
    with cancel_on_interrupt() as cancel:
        signal.raise_signal(number)
        clock[0] += PATIENCE
        signal.raise_signal(number)
    assert cancel.is_set()


def test_a_later_one_ends_the_program(clock):
    with cancel_on_interrupt():
        signal.raise_signal(signal.SIGINT)
        clock[0] += PATIENCE + 0.1
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGTERM)


def test_a_record_being_kept_is_not_disturbed(clock):
    with cancel_on_interrupt() as cancel:
        signal.raise_signal(signal.SIGINT)
        cancel.settled = True
        clock[0] += PATIENCE + 10
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    assert cancel.ends_program


def test_sigterm_after_ctrl_c_ends_the_program_when_the_answer_has_ended(clock):
    with cancel_on_interrupt() as cancel:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    assert cancel.ends_program


def test_what_was_ignored_from_the_start_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with cancel_on_interrupt() as cancel:
            signal.raise_signal(signal.SIGHUP)
            assert not cancel.is_set()
    finally:
        signal.signal(signal.SIGHUP, before)
