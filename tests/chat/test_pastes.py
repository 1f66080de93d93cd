"""Long pastes are shown short and sent whole."""

from hypothesis import given
from hypothesis import strategies as st

from llmcli.chat.pastes import LONG_CHARACTERS, LONG_LINES, Pastes


def test_a_short_paste_is_shown_as_it_is_with_its_line_ends_made_plain():
    assert Pastes().shown("a\r\nb\rc") == "a\nb\nc"


@given(st.lists(st.text(min_size=LONG_CHARACTERS + 1, max_size=LONG_CHARACTERS + 20), min_size=1, max_size=3))
def test_long_pastes_come_back_whole(texts):
    pastes = Pastes()
    line = " and ".join(pastes.shown(text) for text in texts)
    assert len(line) < 200
    plain = [text.replace("\r\n", "\n").replace("\r", "\n") for text in texts]
    assert pastes.expanded(line) == " and ".join(plain)


def test_many_lines_are_long_as_well():
    pastes = Pastes()
    shown = pastes.shown("x\n" * LONG_LINES)
    assert shown == "[paste 1: 40 characters, 21 lines]"
    assert pastes.expanded(f"see {shown}!") == "see " + "x\n" * LONG_LINES + "!"


def test_brackets_that_are_no_marker_stay():
    pastes = Pastes()
    pastes.shown("x" * 5000)
    for text in ("[paste 2: 5,000 characters]", "[paste 1: something else]", "[paste]"):
        assert pastes.expanded(text) == text
