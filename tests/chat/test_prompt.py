"""What a person gives becomes one user message."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmcli.chat import prompt
from llmcli.chat.prompt import PromptSources, clean, join, read_messages
from llmcli.errors import UsageError
from llmcli.inference import Message


def read(monkeypatch, stdin=None, **sources):
    notices = []
    if stdin is not None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
    messages = read_messages(PromptSources(stdin=stdin is not None, **({"text": None} | sources)), notices.append)
    return messages, notices


def test_files_and_stdin_come_first_then_the_text(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("file a\n")
    (tmp_path / "b.txt").write_text("file b")
    files = (tmp_path / "a.txt", tmp_path / "b.txt")
    messages, notices = read(monkeypatch, b"piped\n\n", text="why?", files=files, system="Be short.")
    assert messages == (Message("system", "Be short."), Message("user", "file a\n\nfile b\n\npiped\n\nwhy?"))
    assert notices == []


def test_a_whole_file_on_stdin_is_one_prompt_with_or_without_a_final_line_end(monkeypatch):
    with_end, _ = read(monkeypatch, b"one\ntwo\n")
    without, _ = read(monkeypatch, b"one\ntwo")
    assert with_end == without == (Message("user", "one\ntwo"),)


def test_windows_line_ends_and_a_byte_order_mark_leave_the_same_prompt(monkeypatch):
    windows, _ = read(monkeypatch, "\ufeffone\r\ntwo\r\n".encode())
    assert windows == (Message("user", "one\ntwo"),)


def test_what_is_not_utf8_is_replaced_and_said(monkeypatch):
    messages, notices = read(monkeypatch, b"caf\xe9 ok")
    assert messages[0].content == "caf� ok"
    assert notices == ["stdin: not valid UTF-8 at byte 3; what could not be read is replaced by U+FFFD"]


def test_nul_bytes_stay_in_one_message(monkeypatch):
    messages, notices = read(monkeypatch, b"a\0b")
    assert messages == (Message("user", "a\0b"),)
    assert "NUL bytes" in notices[0]


def test_a_lone_surrogate_from_the_command_line_becomes_valid_text(monkeypatch):
    messages, notices = read(monkeypatch, text="caf\udce9")
    assert messages[0].content == "caf�"
    assert len(notices) == 1


@pytest.mark.parametrize("text", ["", "  \n", None])
def test_an_empty_prompt_is_refused(monkeypatch, text):
    with pytest.raises(UsageError, match="empty"):
        read(monkeypatch, b"" if text is None else None, text=text)


def test_an_unreadable_file_is_named(monkeypatch, tmp_path):
    for path in (tmp_path / "nope.txt", tmp_path, Path("/dev/zero")):
        with pytest.raises(UsageError, match=path.name):
            read(monkeypatch, text="x", files=(path,))


def test_a_silent_stdin_is_said_to_be_waited_for(monkeypatch):
    class Slow(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, _buffer):
            assert waited.wait(10)
            return 0

    import threading

    waited = threading.Event()
    notices = []

    def notice(text):
        notices.append(text)
        waited.set()

    monkeypatch.setattr(prompt, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(Slow())))
    messages = read_messages(PromptSources(text="x", stdin=True), notice)
    assert messages[0].content == "x"
    assert "waiting for the end of stdin" in notices[0]


def test_more_than_any_context_holds_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(prompt, "MAX_BYTES", 10)
    (tmp_path / "long.txt").write_text("x" * 11)
    with pytest.raises(UsageError, match=r"long\.txt holds more than"):
        read(monkeypatch, files=(tmp_path / "long.txt",))
    with pytest.raises(UsageError, match="stdin holds more than"):
        read(monkeypatch, b"x" * 11)


@given(st.lists(st.text(alphabet="ab\n ", max_size=8), max_size=4))
def test_parts_are_one_empty_line_apart(parts):
    kept = [part.rstrip("\n") for part in parts if part.rstrip("\n")]
    assert join(parts) == "\n\n".join(kept)


@given(st.text())
def test_clean_keeps_every_character_of_valid_text(text):
    notices = []
    assert clean(text.encode("utf-8", "ignore"), "x", notices.append) == text.encode(
        "utf-8", "ignore"
    ).decode().replace("\r\n", "\n").removeprefix("\ufeff")
    assert bool(notices) == ("\0" in text)


def test_devices_are_not_read(monkeypatch):
    with Path("/dev/null").open() as null:
        monkeypatch.setattr("sys.stdin", null)
        assert not prompt.stdin_is_piped()
