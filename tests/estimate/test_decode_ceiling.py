"""The most that bandwidth lets decode reach: worked examples, and laws."""

from dataclasses import replace

import pytest
from sized import HIDDEN, VOCABULARY, architecture, mixture, sizer, subject

from llmcli.estimate.counts import tensor
from llmcli.estimate.decode import ceiling
from llmcli.estimate.plan import estimate
from llmcli.estimate.request import SizeRequest
from llmcli.estimate.weights import Weights, input_embedding

BANDWIDTH, WEIGHTS = 400e9, 8 * 10**9
KV = 20_000 * 131_072
"""The cache of 20,000 tokens of Llama-3.1-8B."""


def reached(context: int, batch: int, held: int) -> float:
    return ceiling(context, batch, (WEIGHTS, held, 0), BANDWIDTH).tokens_per_second


def test_eight_gigabytes_of_weights_at_400_gigabytes_a_second():
    assert reached(0, 1, 0) == 50


def test_twenty_thousand_tokens_of_context():
    part = ceiling(20_000, 1, (WEIGHTS, KV, 0), BANDWIDTH)
    assert f"{part.tokens_per_second:.1f}" == "37.7"
    assert part.slowdown == pytest.approx(10.62 / 8, abs=0.001)


def test_eight_sequences_do_not_make_it_eight_times_as_fast():
    together = reached(20_000, 8, 8 * KV)
    assert f"{together:.0f}" == "110"
    assert together / reached(20_000, 1, KV) == pytest.approx(2.9, abs=0.05)


def test_reading_the_cache_passes_reading_the_weights_at_batch_3():
    assert f"{WEIGHTS / KV:.2f}" == "3.05"
    part = ceiling(20_000, 4, (WEIGHTS, 4 * KV, 0), BANDWIDTH)
    assert part.kv_read_bytes > part.weights_read_bytes > 3 * KV


def test_there_is_one_part_per_row_where_a_bandwidth_is_given():
    request = SizeRequest((1024, 8192), (1, 4), bandwidth=1e9)
    answer = estimate(subject(), request)
    assert [(part.context, part.batch) for part in answer.decode] == [(row.context, row.batch) for row in answer.rows]
    for part, row in zip(answer.decode, answer.rows, strict=True):
        assert part.kv_read_bytes == row.kv_bytes
        assert part.seconds_per_step == (part.weights_read_bytes + part.kv_read_bytes) / 1e9
        assert part.slowdown > 1
    assert estimate(subject(), SizeRequest()).decode == ()


def test_an_input_embedding_apart_from_the_head_is_not_read():
    untied = architecture()
    assert input_embedding(untied) == HIDDEN * VOCABULARY
    table = HIDDEN * VOCABULARY
    tied = replace(untied, count=replace(untied.count, total=untied.params - table, tied=table))
    assert input_embedding(tied) == 0
    assert sizer(untied).loaded.weights.read(1) == sizer(tied).loaded.weights.read(1) == 2 * tied.params


def test_towers_are_resident_and_not_read():
    with_towers = sizer(architecture(vision=tensor(10**6))).loaded.weights
    assert with_towers.read(1) == sizer().loaded.weights.read(1)
    assert with_towers.total == sizer().loaded.weights.total + 2 * 10**6


def test_a_batch_reads_more_experts_than_a_token_but_not_all_of_them():
    weights = sizer(mixture(number=8, used=2)).loaded.weights
    assert weights.read(1) == weights.dense + weights.experts // 4
    assert weights.read(2) == weights.dense + round(weights.experts * (1 - 0.75**2))
    reads = [weights.read(batch) for batch in (1, 2, 4, 8, 1000)]
    assert reads == sorted(reads)
    assert reads[-1] == weights.dense + weights.experts


def test_parts_of_a_checkpoint_are_scaled_to_its_size():
    scaled = Weights(dense=600, experts=300, embedding=100, used=0.5).scaled(501)
    assert scaled.total == 501
    assert (scaled.experts, scaled.embedding) == (150, 50)
