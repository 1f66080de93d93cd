"""Several requests at once: in pages, or as reservations."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sized import architecture, sizer, subject

from llmcli.estimate.facts import Attention
from llmcli.estimate.mix import mix_of
from llmcli.estimate.plan import estimate
from llmcli.estimate.request import SizeRequest

LLAMA = architecture(Attention(8, 128, 128), layers=32)
"""The cache of Llama-3.1-8B: 128 KiB per token in 16 bits."""


def test_the_worked_example_of_three_requests():
    mix = estimate(subject(LLAMA), SizeRequest(mix=(800, 40_000, 180_000))).mix
    assert mix.paged_bytes == 220_800 * 131_072
    assert f"{mix.paged_bytes / 10**9:.1f}" == "28.9"
    assert f"{mix.reserved_bytes / 10**9:.1f}" == "70.8"
    assert f"{mix.wasted_share:.0%}" == "59%"
    assert mix.wasted_bytes == mix.reserved_bytes - mix.paged_bytes


@given(st.lists(st.integers(1, 200_000), min_size=1, max_size=9))
def test_pages_never_take_more_than_reservations(contexts):
    mix = mix_of(sizer(), tuple(contexts))
    assert mix.paged_bytes <= mix.reserved_bytes
    assert 0 <= mix.wasted_share < 1
    assert (mix.wasted_bytes == 0) == (len(set(contexts)) == 1)


@pytest.mark.parametrize("share", [0.9, 1, 1.05, 1.5])
@pytest.mark.parametrize("devices", [1, 2, 3])
def test_one_request_takes_what_a_row_takes(devices, share):
    request = SizeRequest((5000,), mix=(5000,), overhead=0)
    size = int(estimate(subject(), request).rows[0].total_bytes * share / devices)
    answer = estimate(subject(), replace(request, vram=(size,) * devices))
    assert answer.mix.total_bytes == answer.rows[0].total_bytes
    assert answer.mix.fits is answer.rows[0].fits
    torn = not answer.mix.fits and answer.mix.total_bytes <= size * devices
    assert any("whole layers" in warning for warning in answer.warnings) is torn


@pytest.mark.parametrize(("vram", "fits"), [(None, None), ((10**12,), True), ((10**6,), False)])
def test_whether_a_mix_fits_is_said_where_it_is_asked(vram, fits):
    assert estimate(subject(), SizeRequest(mix=(10, 5000), vram=vram)).mix.fits is fits


def test_no_mix_is_no_answer():
    assert estimate(subject(), SizeRequest()).mix is None
