"""K and V in buffers: what transformers' own layers hold, at whatever rows they lie."""

import dataclasses

import pytest
import torch
from conversations import Conversation, same
from hypothesis import given, settings
from hypothesis import strategies as st
from speculating import Told, ask, drafting, record_choices
from tiny_models import engine_of, tiny_model
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from llmcli.engine import kv_rows
from llmcli.engine.cache import allocated_bytes, kv_bytes, new_cache
from llmcli.engine.kv_rows import RowsLayer, SlidingRowsLayer

FIRST, SPARE = 4, 3
LIMIT = 48


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Buffers so small that a few tokens fill them."""
    monkeypatch.setattr(kv_rows, "FIRST_ROWS", FIRST)
    monkeypatch.setattr(kv_rows, "SPARE_ROWS", SPARE)


@dataclasses.dataclass
class Pair:
    """A layer in buffers and transformers' own one, to which the same is done."""

    ours: RowsLayer
    theirs: DynamicLayer
    batch: int = 1
    heads: int = 2
    dims: tuple = (3, 2)
    dtype: torch.dtype = torch.float32
    tokens: int = 0
    last: tuple = ()
    moved: bool = False

    def new(self, count):
        """K and V of tokens that were never seen before."""
        shapes = ((self.batch, count, self.heads, dim) for dim in self.dims)
        start, self.tokens = self.tokens, self.tokens + count
        made = (torch.arange(start, start + count).view(1, -1, 1, 1) + torch.rand(shape) / 2 for shape in shapes)
        return [some.to(self.dtype).transpose(1, 2) for some in made]

    @property
    def recording(self):
        return getattr(self.theirs, "record_past", False)

    def update(self, count):
        new = self.new(count)
        seen = self.ours.update(*new)
        for ours, theirs in zip(seen, self.theirs.update(*new), strict=True):
            assert torch.equal(ours, theirs)
        self.last = tuple((one, one.clone()) for one in seen)

    def wrote(self, _):
        """One token as a compiled step writes it: straight into the rows."""
        if self.recording or not self.ours.get_seq_length():
            return
        new = self.new(1)
        self.theirs.update(*new)
        self.ours.reserve(1)
        row = self.ours.first_row + self.ours.keys.shape[-2]
        for buffer, one in zip(self.ours.buffers, new, strict=True):
            buffer[:, :, row : row + 1] = one
        self.ours.wrote(1)
        self.last = ()

    def crop(self, count):
        if self.theirs.get_seq_length():
            outcomes = [self._cropped(layer, min(count, layer.keys.shape[-2])) for layer in (self.ours, self.theirs)]
            assert outcomes[0] == outcomes[1]

    @staticmethod
    def _cropped(layer, count):
        try:
            layer.crop(-count)
        except RuntimeError as error:  # a window that has let go of its past
            return str(error)

    def record(self, on):
        if hasattr(self.theirs, "record_past"):
            for layer in (self.ours, self.theirs):
                if layer.record_past and layer.is_initialized:
                    layer.crop(0)
                layer.record_past = bool(on)

    def reorder(self, shift):
        if self.theirs.get_seq_length():
            order = torch.arange(self.batch).roll(shift)
            self.ours.reorder_cache(order)
            self.theirs.reorder_cache(order)

    def reset(self, _):
        self.ours.reset()
        self.theirs.reset()

    def move(self, more):
        """Into buffers that another one brings, full of what it has left there."""
        held = self.ours.keys.shape[-2] if self.ours.is_initialized else 0
        shapes = ((self.batch, self.heads, held + more, dim) for dim in self.dims)
        self.ours.move_to(tuple(torch.full(shape, torch.nan, dtype=self.dtype) for shape in shapes))
        self.moved = True
        assert self.ours.buffered

    def leave(self, _):
        buffers = self.ours.buffers
        if self.ours.is_initialized:
            self.ours.leave()
        for buffer in buffers:
            buffer.fill_(torch.nan)
        self.last = ()

    def check(self):
        """Everything that can be asked of a layer; and what attention was given last stays as it was."""
        assert self.ours.get_seq_length() == self.theirs.get_seq_length()
        for queries in (1, 5):
            assert self.ours.get_mask_sizes(queries) == self.theirs.get_mask_sizes(queries)
        if self.theirs.get_seq_length():
            assert torch.equal(self.ours.keys, self.theirs.keys)
            assert torch.equal(self.ours.values, self.theirs.values)
        for shown, was in self.last:
            assert torch.equal(shown, was)
        if not self.moved:
            assert self.ours.rows in self.sizes()

    def sizes(self):
        """What a buffer may have as rows."""
        most, limit = 1 << 20, self.ours.limit or 1 << 20
        if isinstance(self.ours, SlidingRowsLayer):
            most = kv_rows.most_rows(self.ours.sliding_window)
        return {0, most, limit, *(FIRST << k for k in range(10) if FIRST << k <= min(most, limit))} - {1 << 20}


_ops = st.one_of(
    st.tuples(st.just("update"), st.integers(1, 4)),
    st.tuples(st.just("update"), st.integers(1, 25)),
    st.tuples(st.just("wrote"), st.just(1)),
    st.tuples(st.just("crop"), st.integers(0, 9)),
    st.tuples(st.just("record"), st.integers(0, 1)),
    st.tuples(st.just("reorder"), st.just(1)),
    st.tuples(st.just("reset"), st.just(0)),
    st.tuples(st.just("move"), st.integers(1, 20)),
    st.tuples(st.just("leave"), st.just(0)),
)


@settings(max_examples=120, deadline=None)
@given(
    ops=st.lists(_ops, min_size=1, max_size=25),
    window=st.sampled_from([None, 2, 3, 6, 9]),
    limit=st.sampled_from([None, LIMIT, 10]),
    shape=st.fixed_dictionaries(
        {
            "batch": st.integers(1, 3),
            "dims": st.sampled_from([(3, 3), (4, 2), (1, 5)]),
            "dtype": st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
        }
    ),
)
def test_whatever_is_done_to_them_they_hold_what_transformers_layers_hold(ops, window, limit, shape):
    pair = pair_of(window, limit, **shape)
    for name, number in ops:
        held = pair.ours.get_seq_length()
        if name in {"update", "wrote"} and held + number > (limit or 100):
            continue
        getattr(pair, name)(number)
        pair.check()


def pair_of(window, limit=None, **shape):
    if window is None:
        return Pair(RowsLayer(limit), DynamicLayer(), **shape)
    return Pair(SlidingRowsLayer(window, limit), DynamicSlidingWindowLayer(window), **shape)


def test_a_token_is_appended_in_place_until_the_buffer_is_full():
    pair = pair_of(None, 40)
    places, rows = [], []
    for _ in range(40):
        pair.update(1)
        places.append((pair.ours.keys.data_ptr(), pair.ours.values.data_ptr()))
        rows.append(pair.ours.rows)
    assert rows == [4] * 4 + [8] * 4 + [16] * 8 + [32] * 16 + [40] * 8
    assert all((a == b) == (x == y) for a, b, x, y in zip(places, places[1:], rows, rows[1:], strict=False))


def test_a_full_window_goes_back_to_the_start_once_in_all_the_rows_to_spare():
    pair = pair_of(9)
    for _ in range(9):
        pair.update(1)
    buffers, firsts = pair.ours.buffers, []
    for _ in range(40):
        pair.update(1)
        firsts.append(pair.ours.first_row)
    assert pair.ours.rows == kv_rows.most_rows(9) == 8 + SPARE
    assert firsts[:6] == [2, 3, 1] * 2
    assert firsts[3:] == firsts[:-3]
    assert all(after.data_ptr() == before.data_ptr() for after, before in zip(pair.ours.buffers, buffers, strict=True))


def test_a_window_that_will_never_be_passed_by_takes_no_rows_to_spare():
    pair = pair_of(9, limit=10)
    for _ in range(10):
        pair.update(1)
    assert pair.ours.rows == 10


@pytest.mark.parametrize("before", [0, 1, 9])
def test_the_memory_of_a_long_prompt_goes_with_what_leaves_the_window(before):
    cache = cache_of(SlidingRowsLayer(6))
    pair = Pair(cache.layers[0], DynamicSlidingWindowLayer(6))
    for count in (before, 500):
        if count:
            pair.update(count)
    pair.last = ()
    token = 2 * (3 + 2) * 4
    assert kv_bytes(cache) == 5 * token
    assert allocated_bytes(cache) <= kv_rows.most_rows(6) * token
    held = pair.ours.buffers or (pair.ours.keys, pair.ours.values)
    assert pair.ours.keys.untyped_storage().data_ptr() == held[0].untyped_storage().data_ptr()
    pair.update(1)
    assert pair.ours.rows == kv_rows.most_rows(6)


def test_a_cropped_cache_writes_over_what_it_gave_up_and_over_nothing_else():
    pair = pair_of(None)
    pair.update(7)
    kept = [one[:, :, :4] for one in (pair.ours.keys, pair.ours.values)]
    values = [one.clone() for one in kept]
    pair.crop(3)
    pair.update(4)
    pair.check()
    assert all(torch.equal(one, value) for one, value in zip(kept, values, strict=True))
    assert kept[0].data_ptr() == pair.ours.keys.data_ptr()


def test_two_caches_take_turns_in_one_set_of_buffers():
    first, second = pair_of(6), pair_of(6)
    buffers = tuple(torch.zeros(1, 2, 9, dim) for dim in first.dims)
    for before, now in ((first, second), (second, first)) * 2:
        now.update(4)
        before.last = ()
        if before.ours.buffers:
            before.ours.leave()
        now.ours.move_to(buffers)
        now.last, now.moved = (), True
        now.update(1)
        for pair in (before, now):
            pair.check()
        assert now.ours.buffers is buffers


def test_what_has_left_its_buffers_is_put_back_into_them():
    pair = pair_of(None)
    pair.update(4)
    pair.move(3)
    buffers = pair.ours.buffers
    pair.reorder(0)
    assert not pair.ours.buffered
    pair.ours.move_to(buffers)
    assert pair.ours.keys.data_ptr() == buffers[0].data_ptr()
    pair.check()


@pytest.mark.parametrize("limit", [None, 3, 4, 10, 16, 40])
def test_a_buffer_is_large_enough_and_ends_at_the_limit(limit):
    for rows in range(1, 65):
        size = kv_rows.bucket(rows, limit)
        assert size >= rows
        assert size in {4, 8, 16, 32, 64, limit}
        assert limit is None or rows > limit or size <= limit


def cache_of(layer):
    cache = DynamicCache()
    cache.layers = [layer]
    return cache


SHARING = {
    "num_hidden_layers": 4,
    "num_kv_shared_layers": 2,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
}
MODELS = {
    "llama": {},
    "gemma3_text": {},
    "gemma4_text": SHARING,
    "gpt_oss": {},
    "deepseek_v3": {"v_head_dim": 16},
    "mistral": {"_attn_implementation": "eager"},
}


@pytest.mark.parametrize("model_type", MODELS)
@pytest.mark.parametrize("batch", [1, 3])
@torch.inference_mode()
def test_a_model_reads_its_buffers_as_it_reads_transformers_cache(model_type, batch):
    model = tiny_model(model_type, **MODELS[model_type])
    ids = torch.randint(2, 300, (batch, 60), generator=torch.Generator().manual_seed(1))
    ours, theirs = new_cache(model.config, 64), DynamicCache(config=model.config)
    assert any(isinstance(layer, RowsLayer) for layer in ours.layers)
    at = 0
    for count in (5, 1, 1, 1, 1, 7, 1, 1, 1, 1, 1, 1, 19, 1, 1, 1, 1, 1):
        got, want = (
            model(input_ids=ids[:, at : at + count], cache=cache, use_cache=True).logits for cache in (ours, theirs)
        )
        assert (got - want).abs().max() <= 1e-5 * max(1.0, want.abs().max())
        at += count
    assert kv_bytes(ours) == kv_bytes(theirs)


TYPES = ["llama", "gemma3_text", "gemma4_text", "gpt_oss", "mistral"]


@pytest.mark.parametrize("model_type", TYPES)
@pytest.mark.parametrize("spare", [1, SPARE, 20])
def test_drafts_are_taken_back_as_from_a_cache_that_is_never_full(model_type, spare, monkeypatch):
    model, prompt = tiny_model(model_type), list(range(2, 21))
    record_choices(monkeypatch)
    with monkeypatch.context() as ample:
        ample.setattr(kv_rows, "FIRST_ROWS", 512)
        ample.setattr(kv_rows, "SPARE_ROWS", 512)
        plain = ask(engine_of(model), prompt, tokens=30)
    monkeypatch.setattr(kv_rows, "SPARE_ROWS", spare)
    drafting(monkeypatch, Told(plain.ids, wrong=3))
    answer = ask(engine_of(model, speculate="ngram"), prompt, tokens=30)
    assert 0 < answer.trace.accepted < answer.trace.drafted
    same(answer, plain)


@pytest.mark.parametrize("model_type", TYPES)
def test_turns_that_cross_the_ends_of_buffers_answer_as_on_a_fresh_cache(model_type):
    with Conversation(tiny_model(model_type)) as talk:
        first = talk.both(range(2, 7), tokens=9)
        second = [*range(2, 7), *first.ids, *range(40, 45)]
        reply = talk.both(second, tokens=13)
        assert reply.trace.cached > 0
        talk.both([*second, *reply.ids, 50, 51], tokens=6)
        talk.both([*second[:9], 60, 61], tokens=6)
