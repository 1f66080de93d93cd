"""How the record, the line and the explanation tell what the cache did."""

import re

import pytest
from traces import record, trace_of

from llmcli.metrics.explain import rows
from llmcli.metrics.line import phase_line

SHARED_LINE = re.compile(
    r"prompt\s+(\d+)(?:\s*\((\d+)\s+cached\))?.*?ttft.*?(?:prefill|decode|other[^%]*?)\s+\d+\s*%", re.DOTALL
)


def broken(**more):
    values = {
        "cached": 100,
        "cache_source": "live",
        "cache_age": 12.0,
        "cache_break_at": 100,
        "miss_reason": "prefix_changed",
    }
    return record(trace_of(prompt=812, prefill=0.5, generated=11, **(values | more)))


def explained(result):
    return {row.word: (row.value, row.meaning) for row in rows(result)}


def test_the_record_tells_source_age_break_and_reason():
    result = broken()
    assert (result.tokens.cached, result.tokens.evaluated, result.tokens.cache_break_at) == (100, 712, 100)
    assert (result.cache.source, result.cache.age_s, result.cache.miss_reason) == ("live", 12.0, "prefix_changed")


def test_rates_count_evaluated_tokens_only():
    assert broken().rates.prompt_eval_tps == pytest.approx(712 / 0.5)


def test_the_line_says_where_the_cache_broke():
    line = phase_line(broken())
    assert line.startswith("prompt 812 (100 cached) · cache broke at 100 · prefill 712 tok 0.50 s 1424 tok/s · ttft")
    assert SHARED_LINE.search(line).groups() == ("812", "100")


def test_the_line_says_that_a_cache_broke_at_its_very_start():
    line = phase_line(broken(cached=0, evaluated=812, cache_break_at=0, cache_source="none"))
    assert line.startswith("prompt 812 · cache broke at 0 · prefill 812 tok")
    assert SHARED_LINE.search(line).groups() == ("812", None)


def test_an_interrupted_prefill_has_no_rate_and_keeps_its_counts():
    result = broken(evaluated=512, arrivals=(), prefill_ended=0.4, ended=0.4, finish_reason="interrupted")
    assert result.rates.prompt_eval_tps is None
    assert "prompt 812 (100 cached) · cache broke at 100 · prefill 512 tok" in phase_line(result)
    assert explained(result)["prompt"][1].endswith("(100 cached + 512 evaluated before the end)")


def test_the_explanation_names_cached_tokens_the_break_and_its_reason():
    words = explained(broken())
    assert words["cached"][0] == "100 tok"
    assert "last used 12" in words["cached"][1]
    assert words["cache_break_at"][0] == "100"
    assert words["miss_reason"][0] == "prefix_changed"


@pytest.mark.parametrize("reason", ["prefix_changed", "expired", "evicted", "model_changed", "not_croppable"])
def test_every_reason_is_explained(reason):
    assert explained(broken(miss_reason=reason))["miss_reason"][1]


def test_a_request_without_a_cache_explains_no_break():
    words = explained(record(trace_of()))
    assert words["cached"][0] == "0 tok"
    assert not {"cache_break_at", "miss_reason"} & set(words)
