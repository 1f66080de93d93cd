"""An answer streamed as Markdown onto an emulated terminal: what a person sees by scrolling back."""
# ruff: noqa: RUF001 - Chinese has punctuation of its own

import itertools
import os
import re
import threading
import time
import unicodedata
from collections import Counter

import pytest
from emulator import Clock, Terminal, pieces_of, show
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from llmcli.chat.markdown.stream import INTERVAL, MarkdownStream
from llmcli.chat.screen import HiddenScreen, MarkdownScreen, StdoutScreen, screen_for
from llmcli.errors import OutputClosed, OutputFailed

ESCAPES = re.compile(r"\x1b\[(?:\?2026[hl]|J|\d+A|[\d;]*m)")
"""All that may be written: synchronized updates, erase below, cursor up, colours and weights."""


WORDS = re.compile(r"[a-z]+\d+x?\d*[ab]?")


@pytest.fixture(autouse=True)
def colours(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


def reply(count=12):
    """A Markdown answer of five lines per `count`, every word of it unique."""
    parts = []
    for n in range(count // 3):
        parts += [
            f"## heading{n}", f"text{n}a **bold{n}** `code{n}`\ntext{n}b " + " ".join(f"w{n}x{k}" for k in range(30)),
            f"- item{n}a\n  - inner{n}a\n  - inner{n}b\n- item{n}b " + "y" * 30 + f"{n}",
            "```python\n" + "\n".join(f"line{n}x{k} = {k}  # {'c' * k}" for k in range(20)) + "\n```",
            f"| head{n}a | head{n}b |\n|---|---|\n" + "\n".join(f"| cell{n}x{k} | v{n}x{k} |" for k in range(14)),
            f"> quote{n}a\n> quote{n}b",
        ]  # fmt: skip
    return "\n\n".join(parts)


def letters(text):
    text = unicodedata.normalize("NFC", text.replace("```python", ""))
    return re.sub(r"[\W_]", "", text)


def checked(terminal):
    """Nothing but known escapes was written, and no row above the window was meant to change."""
    written = "".join(terminal.written)
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", ESCAPES.sub("", written))
    assert all(int(up) < terminal.size[1] for up in re.findall(r"\x1b\[(\d+)A", written))
    return terminal


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (20, 10), (40, 15), (10, 3), (300, 100)])
def test_every_word_is_once_in_the_scrollback(columns, lines):
    source = reply()
    terminal = checked(show(source, columns, lines))
    if columns >= 40:
        assert Counter(WORDS.findall(terminal.text)) == Counter(WORDS.findall(source))
    kept = [part for part in source.split("\n\n") if "|" not in part]
    text = letters(terminal.text)
    for part in kept:
        assert text.count(letters(part)) == 1


def test_what_fits_looks_as_if_it_had_come_at_once():
    source = "# Title\n\nSome **bold** text.\n\n1. one\n2. two\n\n```python\nx = 1\n```\n\n| a |\n|---|\n| b |\n"
    assert show(source).rows == show(source, pieces=[source]).rows
    assert show(source).text.split("\n") == [
        "Title", "", "Some bold text.", "", "1. one", "2. two", "", "x = 1", "", "a", "───", "b",
    ]  # fmt: skip


FRAGMENTS = st.sampled_from(
    ["word", " ", "\n", "\n\n", "\n  ", "- ", "1. ", "> ", "```\n", "*", "**", "`", "_", "|", "| 1 | 2 |\n|-|-|\n",
     "---\n", "# ", "[a](b)", "<think>", "한글", "漢字。", "e\u0301", "\t", "\\(", "y" * 50]
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(FRAGMENTS, max_size=80), st.sampled_from([(10, 3), (20, 10), (80, 24)]), st.data())
def test_no_letter_is_lost_or_doubled(pieces, size, data):
    terminal = Terminal(*size)
    stream = MarkdownStream(write=terminal.write, window=lambda: terminal.size, clock=Clock())
    wider = data.draw(st.sets(st.integers(0, 80), max_size=3))
    for number, piece in enumerate(pieces):
        if number in wider:
            terminal.resize(terminal.size[0] + 3, terminal.size[1])
        stream.add(piece)
    stream.finish()
    shown, written = letters(checked(terminal).text), letters("".join(pieces))
    assert Counter(re.sub("[0-9]", "", shown)) == Counter(re.sub("[0-9]", "", written))  # but for lists and headers


@pytest.mark.parametrize("columns", [40, 39, 11])
def test_han_is_neither_doubled_nor_lost_at_the_edge(columns):
    source = "".join(chr(0x4E00 + n) + ("，" if n % 7 == 0 else "") for n in range(200)) + "。"
    terminal = show(source, columns, 24, pieces=[source[n : n + 2] for n in range(0, len(source), 2)])
    assert terminal.text.replace("\n", "") == source


@pytest.mark.parametrize("text", ["مرحبا 123 بالعالم", "👩‍👩‍👧 x", "🇰🇷🇩🇪", "e\u0301te", "\u1112\u1161\u11ab글"])
def test_no_code_point_is_dropped(text):
    assert text in ESCAPES.sub("", "".join(show(text, pieces=[text]).written))


@pytest.mark.parametrize("around", ["{}", "```\n{}\n```", "[a]({}x)", "`{}`", "| {} |\n|---|", "# {}"])
def test_control_characters_of_the_model_never_arrive(around):
    evil = "\x1b[2J\x1b]0;own\x07\x1b]52;c;AAAA\x07\x1b]8;;http://x\x07y\x9b2J\r\x08&#27;[2J&#13;\x7f"
    terminal = checked(show(around.format(evil), pieces=list(around.format(evil))))
    assert "]52;c;AAAA" in terminal.text
    assert "\x1b]" not in "".join(terminal.written)


def test_plain_text_costs_its_own_characters():
    pieces = ["The quick", " brown", " fox", " jumps."]
    assert show("", pieces=pieces).written == [*pieces, "\r\x1b[JThe quick brown fox jumps.\n"]


def test_a_long_line_of_code_is_one_line_to_copy():
    line = "call(" + ", ".join(f"argument{n}" for n in range(20)) + ")"
    written = ESCAPES.sub("", "".join(show(f"```\n{line}\n```\n", 40, pieces=[f"```\n{line}\n```\n"]).written))
    assert line in written


@pytest.mark.parametrize("no_colour", [False, True])
def test_colours(monkeypatch, no_colour):
    if no_colour:
        monkeypatch.setenv("NO_COLOR", "1")
    written = "".join(show("# Title\n\n**bold** `code` [a](b)\n\n```python\ndef f(): return 'x'\n```\n\n> q\n").written)
    codes = {code for sequence in re.findall(r"\x1b\[([\d;]*)m", written) for code in sequence.split(";")}
    assert "1" in codes
    assert not codes & {str(code) for code in (*range(40, 50), *range(100, 108))}
    assert any(code.startswith("3") and len(code) == 2 for code in codes) is not no_colour


@pytest.mark.parametrize(
    "text",
    [
        "word " * 6000,
        "x" * 30_000,
        "```python\n" + "x = [1, 2, 3]\n" * 1500,
        "```python\nx = '''\n" + "in a string\n" * 1500,
        "- item **one**\n  - nested\n" * 800,
        "1. Do this:\n\n   ```\n" + "   code\n" * 2000,
        "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 1500,
        "> quoted\n" * 1500,
        "- a\n" + "\n" * 6000,
        "漢字" * 5000,
        "**never closed " + "word " * 3000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_the_cost_of_a_redraw_does_not_grow_with_the_answer(monkeypatch, text):
    parsed, parse = [0], MarkdownIt.parse
    monkeypatch.setattr(MarkdownIt, "parse", lambda self, source: (parsed.append(len(source)), parse(self, source))[1])
    stream = MarkdownStream(write=lambda _text: None, window=lambda: (80, 24), clock=Clock())
    work = []
    for start in range(0, len(text), 40):
        before = len(parsed)
        stream.add(text[start : start + 40])
        work.append(sum(parsed[before:]))
    stream.finish()
    third = len(work) // 3
    assert max(parsed) < 5000
    assert sum(work[-third:]) <= 2 * sum(work[:third])


def test_a_piece_that_comes_too_soon_is_shown_without_another():
    shown, enough = [], threading.Event()

    def write(text):
        shown.append(text)
        if "**late" in "".join(shown):
            enough.set()

    now = [0.0]
    stream = MarkdownStream(write=write, window=lambda: (80, 24), clock=lambda: now[0])
    stream.add("Now")
    stream.add(" **late")
    assert enough.wait(60)
    stream.finish()


def test_redraws_keep_their_distance():
    times, clock = [], Clock(0.0)
    stream = MarkdownStream(write=lambda _text: times.append(clock.now), window=lambda: (80, 24), clock=clock)
    stream._timer = threading.Timer(3600, print)  # the timer's own redraws are not counted here
    for number in range(200):
        clock.now += 0.001
        stream.add(f"*{number}* ")
    assert len(times) > 3
    assert all(later - earlier >= INTERVAL for earlier, later in itertools.pairwise(times))


@pytest.mark.parametrize("source", ["A **half", "```python\ndef f(", "- item\n  - ne", "| a | b |\n|---|---|\n| 1", ""])
def test_an_interrupt_leaves_the_tail_and_a_fresh_line(source):
    terminal = Terminal()
    stream = MarkdownStream(write=terminal.write, window=lambda: terminal.size, clock=Clock())
    for piece in pieces_of(source):
        stream.add(piece)
    stream.finish()
    stream.finish()
    assert terminal.cursor.x == 0
    assert letters(terminal.text) == letters(source)
    assert terminal.cursor.y == len(terminal.text.split("\n")) if source else terminal.cursor.y == 0
    assert "\x1b[?25" not in "".join(terminal.written)


def test_the_echo_of_ctrl_c_is_wiped():
    terminal = Terminal()
    stream = MarkdownStream(write=terminal.write, window=lambda: terminal.size, clock=Clock())
    stream.add("Half an ans")
    terminal.write("^C")
    stream.finish()
    assert terminal.text == "Half an ans"


@pytest.mark.parametrize("later", [False, True])
def test_a_terminal_that_is_gone_ends_the_answer(later):
    def write(text):
        raise OutputClosed

    now = [0.0]
    stream = MarkdownStream(write=write, window=lambda: (80, 24), clock=lambda: now[0])
    if later:
        stream._drawn_at = 0.0
        stream.add("a")
        deadline = time.monotonic() + 60
        while stream._failed is None and time.monotonic() < deadline:
            time.sleep(0.01)
    with pytest.raises(OutputFailed):
        stream.add("b")


def test_a_window_that_tells_no_size_has_80_by_24(monkeypatch):
    from llmcli import console

    read, write = os.pipe()
    with os.fdopen(read), os.fdopen(write, "w") as stream:
        assert console.window(stream) == (80, 24)
        monkeypatch.setattr(os, "get_terminal_size", lambda _file: os.terminal_size((0, 0)))
        assert console.window(stream) == (80, 24)


@pytest.mark.parametrize(
    ("terminal", "term", "plain", "hidden", "screen"),
    [
        (True, "xterm", False, False, MarkdownScreen),
        (True, "xterm", True, False, StdoutScreen),
        (True, "dumb", False, False, StdoutScreen),
        (False, "xterm", False, False, StdoutScreen),
        (True, "xterm", False, True, HiddenScreen),
    ],
)
def test_which_screen(monkeypatch, terminal, term, plain, hidden, screen):
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
    monkeypatch.setenv("TERM", term)
    assert type(screen_for(plain=plain, hidden=hidden)) is screen


def test_the_screen_shows_an_answer_and_ends_twice(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    screen = screen_for(plain=False, hidden=False)
    screen.prefill(1, 2)
    screen.write("**Hi**")
    screen.write(" there")
    screen.end()
    screen.end()
    assert ESCAPES.sub("", capsys.readouterr().out).replace("\r", "").endswith("Hi there\n")
