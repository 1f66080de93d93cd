"""The worked examples that the tool has to reproduce, and the arithmetic of phases."""

import itertools
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from traces import INFO, record, trace_of

from llmcli.inference import GenerateRequest, SamplingOptions
from llmcli.metrics.line import phase_line
from llmcli.metrics.phases import Delivery, seconds_of, shares_of
from llmcli.metrics.rates import gaps_ms, inter_token_latency
from llmcli.metrics.record import record_of
from llmcli.metrics.roofline import bytes_per_step, decode_ceiling

KV_20K = 2 * 32 * 8 * 128 * 2 * 20_000  # Llama-3.1-8B in 16 bit: 128 KiB per token


def test_example_1_a_short_prompt_is_dominated_by_decode():
    result = record(trace_of(prompt=1000, prefill=1000 / 2000, generated=300, per_token=1 / 40))
    assert result.seconds.prefill == pytest.approx(0.5)
    assert result.seconds.decode == pytest.approx(299 / 40)
    assert result.seconds.total == pytest.approx(7.975)
    assert (result.rates.prompt_eval_tps, result.rates.generation_tps) == pytest.approx((2000, 40))
    assert phase_line(result).endswith("decode 94 %")


def test_example_1b_characters_per_second_follow_from_characters_per_token():
    english = record(trace_of(prompt=10, prefill=0.1, generated=301, per_token=1 / 40), chars=301 * 4)
    korean = record(trace_of(prompt=10, prefill=0.1, generated=301, per_token=1 / 40), chars=int(301 * 1.25))
    assert english.rates.chars_per_second == pytest.approx(160)
    assert 40 <= korean.rates.chars_per_second <= 60


def test_example_2_retrieval_makes_the_first_token_late():
    result = record(trace_of(prompt=12_000, prefill=12_000 / 1500, generated=500, per_token=1 / 40))
    assert result.seconds.ttft == pytest.approx(8.0)
    assert result.seconds.total == pytest.approx(20.475)
    assert round(100 * result.seconds.ttft / result.seconds.total) == 39


def test_example_3_bandwidth_sets_the_ceiling_of_decode():
    assert decode_ceiling(400e9, bytes_per_step(8_000_000_000, 0)) == pytest.approx(50)


def test_example_3b_the_kv_cache_lowers_it():
    assert decode_ceiling(400e9, bytes_per_step(8_000_000_000, KV_20K)) == pytest.approx(37.7, abs=0.05)


def test_example_6b_kv_reads_do_not_amortise_over_a_batch():
    step = bytes_per_step(8_000_000_000, KV_20K, batch=8)
    assert decode_ceiling(400e9, step, batch=8) == pytest.approx(110, abs=0.6)


@given(
    durations=st.lists(st.integers(0, 10**6), min_size=6, max_size=6),
    gaps=st.lists(st.integers(0, 10**5), max_size=20),
    tail=st.integers(0, 10**4),
)
def test_every_second_has_one_name(durations, gaps, tail):
    submitted, taken, templated, tokenized, started, prefilled = itertools.accumulate(durations)
    arrivals = tuple(itertools.accumulate(gaps, initial=prefilled + 3))
    trace = trace_of(
        submitted=submitted,
        taken=taken,
        templated=templated,
        tokenized=tokenized,
        prefill_started=started,
        prefill_ended=prefilled,
        arrivals=arrivals,
        ended=arrivals[-1],
    )
    seconds = seconds_of(trace, Delivery(None, arrivals[-1] + tail))
    parts = seconds.queue + seconds.template + seconds.tokenize + seconds.prefill
    assert parts + seconds.first_sample + seconds.unattributed == seconds.ttft
    assert seconds.ttft + seconds.decode + seconds.tail == seconds.total
    shares = shares_of(seconds)
    assert shares.prefill + shares.decode + shares.other == pytest.approx(1)


def test_a_request_without_a_first_token_still_adds_up():
    trace = trace_of(arrivals=(), prefill_ended=None, ended=9.0, finish_reason="interrupted")
    seconds = seconds_of(trace, Delivery(None, 9.5))
    assert (seconds.ttft, seconds.decode, seconds.first_sample) == (None, None, None)
    assert seconds.queue + seconds.template + seconds.tokenize + seconds.prefill + seconds.tail == seconds.total
    result = record_of(
        INFO, GenerateRequest((1,), _greedy()), trace, Delivery(None, 9.5), command="chat", started_at=datetime.now(UTC)
    )
    assert result.rates.generation_tps is None
    assert phase_line(result).endswith("interrupted")


def test_one_token_has_no_generation_rate():
    result = record(trace_of(prompt=10, prefill=0.1, generated=1, per_token=1))
    assert (result.rates.generation_tps, result.itl_ms.p50, result.seconds.decode) == (None, None, 0)
    assert "decode 0 tok" not in phase_line(result)


def test_inter_token_latency_leaves_out_the_first_token():
    itl = inter_token_latency(gaps_ms([10.0, 10.1, 10.2, 10.4]))
    assert (itl.p50, itl.max) == pytest.approx((100, 200))


@pytest.mark.parametrize(
    ("slow", "name"),
    [("queue", "other (queue)"), ("prefill", "prefill"), ("decode", "decode"), ("tail", "other (tail)")],
)
def test_the_verdict_names_the_largest_share(slow, name):
    ticks = {part: 10.0 if part == slow else 0.1 for part in ("queue", "prefill", "decode", "tail")}
    first = ticks["queue"] + ticks["prefill"]
    trace = trace_of(
        submitted=0.0,
        taken=ticks["queue"],
        templated=ticks["queue"],
        tokenized=ticks["queue"],
        prefill_started=ticks["queue"],
        prefill_ended=first,
        arrivals=(first, first + ticks["decode"]),
        ended=first + ticks["decode"],
    )
    result = record(trace, delivered=first + ticks["decode"] + ticks["tail"])
    assert result.phases.dominant == name
    assert f"· {name} " in phase_line(result)


def test_below_64_evaluated_tokens_the_line_shows_no_prefill_rate():
    short, long = (record(trace_of(prompt=n, prefill=0.05, generated=2, per_token=0.1)) for n in (63, 64))
    assert "prefill 63 tok 50 ms ·" in phase_line(short)
    assert "prefill 64 tok 50 ms 1280 tok/s ·" in phase_line(long)


def test_the_line_keeps_prompt_cached_and_evaluated_apart():
    trace = trace_of(prompt=812, cached=790, evaluated=22, prefill=0.05, generated=165, per_token=2.0 / 164)
    assert phase_line(record(trace)) == (
        "prompt 812 (790 cached) · prefill 22 tok 50 ms · ttft 0.05 s · decode 164 tok 2.0 s 82 tok/s · decode 98 %"
    )


def _greedy():
    from llmcli.chat.sampling import resolve_sampling

    return resolve_sampling(SamplingOptions(), SamplingOptions(), SamplingOptions())
