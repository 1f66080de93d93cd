"""What was typed before: kept privately, read from its end, and never a reason to fail."""

import os
import stat

import pytest

from llmcli.chat.message_history import LONGEST, READ_BYTES, MessageHistory
from llmcli.chat.pastes import Pastes


@pytest.fixture
def notices():
    return []


@pytest.fixture
def opened(tmp_path, notices):
    return lambda: MessageHistory(tmp_path / "state" / "history", notices.append)


def test_messages_come_back_newest_first(opened, tmp_path, notices):
    for text in ("one", "two\nlines", "세 번째"):
        opened().store_string(text)
    assert list(opened().load_history_strings()) == ["세 번째", "two\nlines", "one"]
    assert stat.S_IMODE((tmp_path / "state" / "history").stat().st_mode) == 0o600
    assert notices == []


def test_a_lone_surrogate_is_written_as_something_that_can_be_read(opened):
    opened().store_string("a\udce9b")
    assert list(opened().load_history_strings()) == ["a?b"]


def test_a_long_paste_is_kept_in_full(tmp_path, notices):
    pastes = Pastes()
    shown = pastes.shown("x" * 3000)
    MessageHistory(tmp_path / "history", notices.append, pastes.expanded).store_string(f"see {shown}")
    assert list(MessageHistory(tmp_path / "history", notices.append).load_history_strings()) == ["see " + "x" * 3000]


def test_damage_is_read_over(opened, tmp_path):
    opened().store_string("one")
    with (tmp_path / "state" / "history").open("ab") as file:
        file.write(b"\xe9\xff\n+tw\xe9\n")
    assert list(opened().load_history_strings()) == ["tw\ufffd", "one"]


def test_of_a_large_file_only_the_end_is_read(opened, tmp_path):
    (tmp_path / "state").mkdir()
    with (tmp_path / "state" / "history").open("wb") as file:
        file.write(b"\n+old\n" * READ_BYTES)
    opened().store_string("new")
    strings = list(opened().load_history_strings())
    assert strings[0] == "new"
    assert len(strings) < READ_BYTES


def test_a_very_long_message_is_not_kept(opened):
    opened().store_string("x" * (LONGEST + 1))
    assert list(opened().load_history_strings()) == []


@pytest.mark.parametrize("obstacle", ["directory", "pipe", "file in the way"])
def test_an_unusable_file_is_said_once(opened, tmp_path, notices, obstacle):
    state = tmp_path / "state"
    if obstacle == "file in the way":
        state.write_text("")
    else:
        state.mkdir()
        (state / "history").mkdir() if obstacle == "directory" else os.mkfifo(state / "history")
    history = opened()
    assert list(history.load_history_strings()) == []
    history.store_string("one")
    history.store_string("two")
    assert len(notices) == 1
    assert "not kept" in notices[0]
