"""Stop texts over token borders, and which reason ends an answer."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tiny_models import byte_tokenizer

from llmcli.engine.stop import Stopping, StopStrings, TextStream

letters = st.text(alphabet="ab\n", max_size=30)
stops = st.lists(st.text(alphabet="ab\n", min_size=1, max_size=4), max_size=3)


@given(text=letters, stop_texts=stops, cuts=st.lists(st.integers(0, 30), max_size=10))
def test_the_answer_is_what_comes_before_the_first_stop_text_however_it_is_cut(text, stop_texts, cuts):
    borders = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    watcher = StopStrings(stop_texts)
    shown = "".join(watcher.add(text[a:b]) for a, b in pairwise(borders)) + watcher.finish()
    # Pieces may end before a longer stop text is complete, so the first to be completed wins.
    ends = [end for end in range(len(text) + 1) if any(text[:end].endswith(stop) for stop in stop_texts)]
    assert watcher.found == bool(ends)
    if not ends:
        assert shown == text
        return
    assert text.startswith(shown)
    assert not any(stop in shown for stop in stop_texts)
    assert any(text[len(shown) :].startswith(stop) for stop in stop_texts)


def test_text_that_cannot_become_a_stop_text_is_shown_at_once():
    watcher = StopStrings(["END"])
    assert [watcher.add(piece) for piece in ("a", "E", "N", "x", "EN", "D!")] == ["a", "", "", "ENx", "", ""]
    assert watcher.found
    assert watcher.finish() == ""


def test_a_held_back_beginning_is_shown_at_the_end():
    watcher = StopStrings(["END"])
    assert (watcher.add("the EN"), watcher.finish(), watcher.found) == ("the ", "EN", False)


def test_a_stop_text_may_begin_and_end_inside_characters_of_several_tokens():
    tokenizer = byte_tokenizer()
    ids = tokenizer("하나 둘 셋", add_special_tokens=False).input_ids
    text = TextStream(tokenizer, ["둘"])
    shown = ""
    for token_id in ids:
        shown += text.add(token_id)
        if text.stopped:
            break
    assert shown + text.finish() == "하나 "


def reasons(ids, **more):
    stopping = Stopping(**({"eos_ids": frozenset({1, 7}), "max_new_tokens": 9, "room": 9} | more))
    return [stopping.check(token_id) for token_id in ids]


def test_every_end_has_its_own_reason():
    assert reasons([5, 6, 1]) == [None, None, "eos"]
    assert reasons([5, 7]) == [None, "eos"], "every listed end-of-sequence id ends the answer"
    assert reasons([5, 6, 8], max_new_tokens=3) == [None, None, "length"]
    assert reasons([5, 6, 8], room=3) == [None, None, "context"]
    assert reasons([5, 6, 8], room=3, max_new_tokens=3)[-1] == "length"
    assert reasons([1, 1, 8], eos_ids=frozenset(), max_new_tokens=3) == [None, None, "length"]
    tokenizer = byte_tokenizer()
    ids = tokenizer("ab.", add_special_tokens=False).input_ids
    assert reasons(ids, text=TextStream(tokenizer, ["b."])) == [None, None, "stop"]
