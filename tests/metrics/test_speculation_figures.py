"""What is said of a request with drafts: tokens and steps counted apart."""

import pytest
from traces import record, trace_of

from llmcli.metrics.explain import rows
from llmcli.metrics.line import phase_line

DRAFTED = {"generated": 31, "per_token": 0.1, "steps": 10, "drafted": 40, "accepted": 20, "kv_bytes": 10**9}


def words(trace):
    return {row.word: row for row in rows(record(trace))}


def test_the_line_says_how_many_drafts_held_beside_the_rate_of_tokens():
    line = phase_line(record(trace_of(**DRAFTED)))
    assert "decode 30 tok 3.0 s 10 tok/s · 20 of 40 drafts held · decode" in line
    assert "drafts" not in phase_line(record(trace_of(generated=31)))


def test_tokens_of_one_step_are_no_steps_of_their_own():
    found = words(trace_of(**DRAFTED))
    assert found["decode"].meaning.endswith("31 tokens = 1 from prefill + 10 decode steps + 20 drafts")
    assert (found["drafted"].value, found["accepted"].value, found["steps"].value) == ("40 tok", "20 tok", "10")
    assert "50 %" in found["accepted"].meaning


def test_bandwidth_follows_from_steps_not_from_tokens():
    found = words(trace_of(**DRAFTED))
    read = 15_000_000_000 + 10**9
    assert f"{read * 10 / 3.0 / 1e9:.1f} GB/s" in found["bytes_per_step"].meaning
    plain = words(trace_of(generated=31, per_token=0.1, kv_bytes=10**9))
    assert f"{read * 30 / 3.0 / 1e9:.1f} GB/s" in plain["bytes_per_step"].meaning


def test_without_drafts_no_row_speaks_of_them():
    found = words(trace_of(generated=5))
    assert not {"drafted", "accepted", "steps"} & found.keys()
    assert found["decode"].meaning.endswith("1 from prefill + 4 decode steps")


@pytest.mark.parametrize("arrivals", [(1.0, 2.0, 2.0, 2.0, 3.0, 3.0)])
def test_tokens_that_arrive_together_have_gaps_of_nothing(arrivals):
    itl = record(trace_of(generated=6, arrivals=arrivals, steps=2, drafted=3, accepted=3, ended=3.0)).itl_ms
    assert (itl.p50, itl.max) == (0.0, 1000.0)
