"""A batch in the figures: tokens are sums over it, so that rates, logs and ceilings need no word for it."""

import pytest
from traces import INFO, record, trace_of

from llmcli.metrics.explain import rows
from llmcli.metrics.line import phase_line
from llmcli.metrics.log_stats import stats_of

FOUR = {"prompt": 100, "cached": 20, "prefill": 0.5, "generated": 11, "per_token": 0.1, "batch": 4, "kv_bytes": 10**9}


def test_tokens_and_rates_are_totals_and_gaps_are_those_of_a_step():
    result = record(trace_of(**FOUR), chars=50)
    tokens = result.tokens
    assert (tokens.prompt, tokens.cached, tokens.evaluated) == (400, 80, 320)
    assert (tokens.generated, tokens.decoded, tokens.steps, tokens.batch) == (44, 40, 10, 4)
    assert result.rates.prompt_eval_tps == pytest.approx(320 / 0.5)
    assert result.rates.generation_tps == pytest.approx(40 / 1.0)
    assert result.rates.chars_per_second == pytest.approx(50 / 11 * 10)
    assert result.itl_ms.p50 == pytest.approx(100)
    assert phase_line(result).startswith("batch 4 · prompt 400 (80 cached) · prefill 320 tok 0.50 s 640 tok/s")
    assert "decode 40 tok 1.0 s 40 tok/s" in phase_line(result)


def test_a_step_reads_the_weights_once_and_the_cache_of_all_rows():
    result = record(trace_of(**FOUR))
    assert result.ceiling.bytes_per_step == INFO.streamed_bytes + 10**9
    words = {row.word: row for row in rows(result)}
    assert "160.0 GB/s" in words["bytes_per_step"].meaning  # 16 GB, ten times a second
    assert words["generation_tps"].meaning.startswith("4 × (n-1) ÷ decode = 40 ÷ 1.000 s")
    assert "44 tokens = 4 from prefill + 40 from decode" in words["decode"].meaning
    assert words["batch"].value == "4"


def test_the_log_sums_tokens_of_batches_and_of_single_requests():
    one = trace_of(prompt=100, prefill=0.5, generated=11, per_token=0.1)
    (model,) = stats_of([record(trace_of(**FOUR)), record(one)]).models
    assert (model.totals.decode.tokens, model.totals.decode.tps) == (50, pytest.approx(25))
    assert (model.totals.prefill.tokens, model.totals.prefill.tps) == (420, pytest.approx(420))
    assert [bucket.least for bucket in model.buckets] == [64]


def test_a_batch_that_ended_before_its_first_token_decoded_nothing():
    cut = record(trace_of(prompt=9, evaluated=5, generated=0, batch=4, finish_reason="interrupted"))
    assert (cut.tokens.decoded, cut.tokens.generated, cut.rates.generation_tps) == (0, 0, None)
    assert "batch" not in phase_line(record(trace_of()))
