"""Several devices, and what the runtime takes on each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sized import subject

from llmcli.estimate.devices import Need, headroom
from llmcli.estimate.overhead import RUNTIMES, overhead_of
from llmcli.estimate.plan import estimate
from llmcli.estimate.request import SizeRequest

SIZES = st.integers(0, 1000)
DEVICES = st.lists(SIZES, min_size=1, max_size=4)


def placed(layers: list[int], each: int, vram: list[int]) -> bool:
    """Whether layers, in their order, fit on devices in theirs, whole layers on each."""
    rooms = [size - each for size in vram]
    for layer in layers:
        while rooms and rooms[0] < layer:
            rooms.pop(0)
        if not rooms:
            return False
        rooms[0] -= layer
    return True


@given(st.lists(SIZES, min_size=1, max_size=8), st.integers(0, 100), DEVICES)
def test_what_is_said_to_fit_can_be_placed_in_any_order(layers, each, vram):
    need = Need(sum(layers), each, max(layers))
    if headroom(need, vram) >= 0:
        used = sorted(vram, reverse=True)
        assert any(placed(layers, each, used[:number]) for number in range(1, len(used) + 1))


@given(SIZES, st.integers(0, 100), st.integers(0, 50), DEVICES, SIZES)
def test_another_device_never_takes_room_away(spread, each, layer, vram, more):
    need = Need(spread, each, layer)
    assert headroom(need, vram) <= headroom(need, [*vram, more])


def test_one_device_has_what_is_left_of_it():
    assert headroom(Need(60, 10, 20), [100]) == 30


def test_the_runtime_is_there_on_every_device():
    one = estimate(subject(), SizeRequest((1024,), vram=(10**9,))).rows[0]
    two = estimate(subject(), SizeRequest((1024,), vram=(10**9, 10**9))).rows[0]
    assert two.overhead_bytes == 2 * one.overhead_bytes == 2 * 512 * 2**20
    assert two.vram_bytes == 2 * one.vram_bytes


def test_whole_layers_that_do_not_fit_are_explained():
    row = estimate(subject(), SizeRequest((8192,))).rows[0]
    total = row.total_bytes - row.overhead_bytes
    answer = estimate(subject(), SizeRequest((8192,), overhead=0, vram=(total // 2 + 1,) * 2))
    assert answer.rows[0].fits is False
    assert answer.rows[0].headroom_bytes < 0 <= answer.rows[0].vram_bytes - answer.rows[0].total_bytes
    assert "whole layers" in answer.warnings[-1]


@pytest.mark.parametrize("engine", RUNTIMES)
def test_an_overhead_that_is_asked_for_replaces_the_assumption(engine):
    assumed, why = overhead_of(engine, None)
    assert assumed >= 512 * 2**20
    assert "assumed" in why
    assert overhead_of(engine, 0)[0] == 0
    assert "--overhead" in overhead_of(engine, 5)[1]
