"""The stacked picture of the bytes, in the terminal."""

from dataclasses import replace

import pytest
from answers import GIB, row
from hypothesis import given
from hypothesis import strategies as st

from llmcli.estimate.render.bar import Bar, bar, legend, picture
from llmcli.estimate.render.lines import Paper, cells, plain

ASCII = Paper(80, wraps=True, unicode=False)
SIZES = st.integers(0, 2**50)
BARS = st.builds(Bar, st.just("row"), st.tuples(SIZES, SIZES, SIZES, SIZES), st.none() | st.integers(1, 2**50))


def drawn(one: Bar, paper: Paper = ASCII) -> str:
    return plain(picture([one], paper)).split("row ")[1].split("  ")[0].rstrip("\n")


def test_parts_are_as_long_as_they_are_large():
    whole = row(kv=GIB, weights=GIB, activations=GIB, overhead=GIB, vram=8 * GIB)
    text = drawn(bar("row", whole))
    counts = {sign: text.count(sign) for sign in "#=+-"}
    assert max(counts.values()) - min(counts.values()) <= 1
    assert text == "".join(sign * counts[sign] for sign in "#=+-") + "." * text.count(".") + "|"
    assert abs(text.count(".") - sum(counts.values())) <= 1


def test_what_does_not_fit_stands_behind_the_mark():
    line = plain(picture([bar("row", row(kv=4 * GIB, weights=4 * GIB, vram=6 * GIB))], ASCII))
    inside, behind = line.split("row ")[1].split("  ")[0].split("|")
    assert set(behind) == {"="}
    assert len(inside) == pytest.approx(3 * len(behind), abs=2)
    assert "2.00 GiB past" in line


def test_what_stays_free_is_the_figure_of_the_table():
    """Several devices leave gaps, so that less is free than the sum of all of them says."""
    split = replace(row(vram=24 * GIB), headroom_bytes=7 * GIB)
    assert "7.00 GiB free" in plain(picture([bar("row", split)], ASCII))


def test_a_bar_far_past_the_mark_is_cut_and_the_others_stay_readable():
    far, near = row(kv=1000 * GIB, weights=4 * GIB, vram=8 * GIB), row(kv=GIB, weights=4 * GIB, vram=8 * GIB)
    lines = plain(picture([bar("far", far), bar("near", near)], ASCII)).splitlines()
    assert ">  1004.00 GiB" in lines[0]
    assert lines[1].count("#") >= 10
    assert ">" not in lines[1]


def test_the_total_is_all_there_is():
    """A prefill that takes more than what is held afterwards counts as cache, what is left over as activations."""
    one = bar("", row(kv=GIB, peak=3 * GIB, activations=2 * GIB, overhead=GIB))
    assert one.parts == (4 * GIB, 3 * GIB, 2 * GIB, GIB)


@given(BARS, st.integers(20, 200), st.booleans())
def test_every_bar_has_the_same_length_and_its_parts_in_order(one, width, unicode):
    paper = Paper(width, wraps=True, unicode=unicode)
    lines = picture([one, one], paper)
    text = plain(lines)
    assert lines[0] == lines[1]
    assert all(cells(line) <= max(width, 40) for line in text.splitlines())
    order = "█▒+-·│»" if unicode else "#=+-.|>"
    inside = drawn(one, paper).replace(" ", "").split(order[5])[0]
    assert [order.index(sign) for sign in inside] == sorted(order.index(sign) for sign in inside)
    if one.vram is not None and one.total <= one.vram:
        assert not set(drawn(one, paper).split(order[5])[1]) - {" "}


def test_the_legend_names_only_what_is_there():
    assert plain(legend([bar("", row())], ASCII)) == "# weights, = KV cache\n"
    assert plain(legend([bar("", row(vram=GIB))], ASCII)) == "# weights, = KV cache, | VRAM 1.00 GiB\n"
    full = bar("", row(activations=GIB, overhead=GIB, vram=24 * GIB))
    assert plain(legend([full], Paper(30, wraps=True, unicode=False))).splitlines() == [
        "# weights, = KV cache,",
        "  + activations, - overhead,",
        "  . free, | VRAM 24.00 GiB",
    ]
