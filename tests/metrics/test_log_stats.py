"""Aggregates over many requests, a record as a row of a table, and how far back `--since` looks."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from traces import record, trace_of

from llmcli.errors import UsageError
from llmcli.metrics.flat import cells, columns
from llmcli.metrics.log_stats import BUCKETS, stats_of
from llmcli.metrics.record import Failure
from llmcli.metrics.since import parse_since


def only(records):
    (model,) = stats_of(records).models
    return model


def test_a_rate_is_all_tokens_by_all_seconds():
    fast = record(trace_of(prompt=100, prefill=0.1, generated=11, per_token=0.01))  # 1,000 and 100 tok/s
    slow = record(trace_of(prompt=500, prefill=1.0, generated=101, per_token=0.1))  # 500 and 10 tok/s
    totals = only([fast, slow]).totals
    assert totals.prefill.tps == pytest.approx(600 / 1.1)
    assert totals.decode.tps == pytest.approx(110 / 10.1)
    assert (totals.decode.tokens, totals.decode.requests) == (110, 2)


def test_short_and_long_prompts_are_not_mixed():
    short = record(trace_of(prompt=22, prefill=22 / 440))
    long = record(trace_of(prompt=2000, prefill=2000 / 1500))
    buckets = only([long, short, short]).buckets
    assert [(bucket.least, bucket.most, bucket.totals.requests) for bucket in buckets] == [(1, 63, 2), (512, 4095, 1)]
    assert [bucket.totals.prefill.tps for bucket in buckets] == pytest.approx([440, 1500])


@pytest.mark.parametrize(
    ("evaluated", "least"), [(0, 0), (1, 1), (63, 1), (64, 64), (511, 64), (512, 512), (4095, 512), (4096, 4096)]
)
def test_the_borders_of_the_buckets(evaluated, least):
    (bucket,) = only([record(trace_of(prompt=5000, evaluated=evaluated, prefill=1.0))]).buckets
    assert bucket.least == least
    assert bucket.most is None or evaluated <= bucket.most


def test_what_never_reached_a_rate_is_in_neither_sum_but_was_waited_for():
    whole = record(trace_of(prompt=100, prefill=1.0, generated=11, per_token=0.1))
    trace = trace_of(prompt=900, evaluated=300, prefill_ended=6.0, arrivals=(), ended=6.0, finish_reason="interrupted")
    cut = record(trace, delivered=6.0)
    model = only([whole, cut])
    assert (model.totals.prefill.tokens, model.totals.prefill.seconds, model.totals.prefill.tps) == (100, 1.0, 100)
    assert (model.totals.decode.requests, model.totals.ttft.p95) == (1, 1.0)
    assert model.totals.tokens.evaluated == 400
    assert model.totals.seconds.prefill == pytest.approx(7.0)
    assert model.totals.phases.shares.prefill == pytest.approx(7 / 8)
    assert model.finish_reasons == {"eos": 1, "interrupted": 1}


def test_one_token_and_no_prefill_leave_nulls():
    totals = only([record(trace_of(prompt=5, evaluated=0, arrivals=(), ended=1.0, finish_reason="error"))]).totals
    assert (totals.prefill.tps, totals.decode.tps, totals.ttft.p50) == (None, None, None)
    assert only([record(trace_of(generated=1))]).totals.decode.tps is None


def test_no_request_at_all():
    stats = stats_of([])
    assert (stats.requests, stats.first, stats.models) == (0, None, ())


def test_the_verdict_names_the_biggest_part_of_other():
    slow = record(trace_of(prompt=10, prefill=0.1, generated=2, per_token=0.1), delivered=9.0)
    assert only([slow, slow]).totals.phases.dominant == "other (tail)"


def test_cached_tokens_are_a_share_of_the_prompts():
    reused = record(trace_of(prompt=1000, cached=900))
    fresh = record(trace_of(prompt=200))
    totals = only([reused, fresh]).totals
    assert totals.cached_share == pytest.approx(900 / 1200)
    assert (totals.tokens.prompt, totals.tokens.cached, totals.tokens.evaluated) == (1200, 900, 300)


def test_models_are_apart_by_name_format_and_device_and_the_longest_wait_comes_first():
    base = record(trace_of(prefill=1.0))
    forms = [{}, {"quant": "nf4"}, {"device": "cuda:0"}, {"name": "b"}, {"dtype": "float32"}]
    records = [replace(base, model=replace(base.model, **form)) for form in forms]
    records.append(replace(records[1], started_at="1999-01-01T00:00:00.000Z", command="bench"))
    stats = stats_of(records)
    assert len(stats.models) == len(forms)
    assert (stats.models[0].quant, stats.models[0].totals.requests) == ("nf4", 2)
    assert stats.first == "1999-01-01T00:00:00.000Z"
    assert stats.commands == {"chat": 5, "bench": 1}


def test_quantiles_of_ttft():
    records = [record(trace_of(prefill=float(second))) for second in range(1, 22)]
    ttft = only(records).totals.ttft
    assert (ttft.p50, ttft.p95) == pytest.approx((11, 20))


@given(
    st.lists(
        st.tuples(st.integers(1, 9000), st.integers(1, 50), st.floats(0.001, 100), st.floats(0.001, 1)), min_size=1
    )
)
def test_laws_of_aggregates(many):
    records = [record(trace_of(prompt=p, generated=n, prefill=s, per_token=d)) for p, n, s, d in many]
    model = only(records)
    rates = [each.rates.prompt_eval_tps for each in records]
    assert min(rates) * 0.999 <= model.totals.prefill.tps <= max(rates) * 1.001
    assert sum(bucket.totals.requests for bucket in model.buckets) == len(records)
    assert sum(bucket.totals.tokens.evaluated for bucket in model.buckets) == model.totals.tokens.evaluated
    assert [bucket.least for bucket in model.buckets] == sorted({bucket.least for bucket in model.buckets})
    assert {bucket.least for bucket in model.buckets} <= set(BUCKETS)
    shares = model.totals.phases.shares
    assert shares.prefill + shares.decode + shares.other == pytest.approx(1)
    backwards = only(records[::-1]).totals
    assert backwards.prefill.tps == pytest.approx(model.totals.prefill.tps)
    assert backwards.ttft == model.totals.ttft


def leaves(value, place=()):
    open_ended = (("versions",), ("sampling", "origins"))
    if isinstance(value, dict) and place not in open_ended:
        return {leaf for name, inner in value.items() for leaf in leaves(inner, (*place, name))}
    return {place}


def test_every_field_of_a_record_has_a_column():
    failed = replace(record(trace_of()), error=Failure("OutOfMemory", "no, memory"))
    document = msgspec.to_builtins(failed)
    assert set(columns()) == leaves(document)
    assert len(set(columns())) == len(columns())
    row = dict(zip(columns(), cells(document, columns()), strict=True))
    assert row["error", "message"] == "no, memory"
    assert row["tokens", "prompt"] == "10"
    assert row["sampling", "ignore_eos"] == "false"
    assert row["model", "revision"] == ""
    assert msgspec.json.decode(row[("versions",)]) == document["versions"]


def test_a_record_without_an_error_has_empty_cells():
    row = dict(zip(columns(), cells(msgspec.to_builtins(record(trace_of())), columns()), strict=True))
    assert (row["error", "type"], row["error", "message"]) == ("", "")


NOW = datetime(2025, 1, 31, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("30m", NOW - timedelta(minutes=30)),
        ("2h", NOW - timedelta(hours=2)),
        (" 7 d ", NOW - timedelta(days=7)),
        ("1w", NOW - timedelta(days=7)),
        ("2025-01-31T10:00:00Z", NOW - timedelta(hours=2)),
        ("2025-01-31T10:00+02:00", NOW - timedelta(hours=4)),
        ("2025-01-30", datetime(2025, 1, 30).astimezone()),
        ("2025-01-30 08:15", datetime(2025, 1, 30, 8, 15).astimezone()),
    ],
)
def test_how_far_back(text, moment):
    assert parse_since(text, NOW) == moment


@pytest.mark.parametrize("text", ["", "soon", "7", "-2h", "2 h 30 m", "99999999999d", "2025-13-01", "٣h"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(UsageError, match="--since"):
        parse_since(text, NOW)
