"""The law of speculation: whatever the drafts are, the answer is the one without them, and so is the cache."""

import threading

import pytest
from conversations import After, same
from speculating import Garbage, Speculating, Told, ask, drafting, record_choices, with_draft
from tiny_models import byte_tokenizer, engine_of, greedy, tiny_model

from llmcli.engine.decode.draft_model import ModelDrafter
from llmcli.inference import GenerateRequest, Piece

LOOP = [5, 6, 7, 8, 9, 10] * 4 + [5, 6, 7]
SHARED = {
    "num_hidden_layers": 4,
    "num_kv_shared_layers": 2,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
}
VARIANTS = {
    **{name: (name, {}) for name in ("llama", "gpt2", "mixtral", "deepseek_v3", "qwen3_moe")},
    **{name: (name, {}) for name in ("gemma3_text", "gemma4_text", "gpt_oss", "cohere2", "mistral")},
    "mistral, its window filled while answering": ("mistral", {"sliding_window": 34}),
    "gemma4_text, layers that share K and V": ("gemma4_text", SHARED),
}
SAMPLED = {"temperature": 0.9, "top_p": 0.95, "seed": 7, "repetition_penalty": 1.3}


def adds_up(trace):
    return trace.generated - 1 == trace.steps + trace.accepted and trace.accepted <= trace.drafted


@pytest.mark.parametrize("sampling", [{}, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_whatever_is_drafted_the_answer_is_that_of_eager_decoding(variant, sampling, monkeypatch):
    model_type, more = VARIANTS[variant]
    model = tiny_model(model_type, **more)
    eager, engine = engine_of(model), engine_of(model, speculate="ngram")
    record_choices(monkeypatch)
    plain = ask(eager, LOOP, **sampling)
    assert (plain.trace.steps, plain.trace.drafted) == (23, 0)
    looked_up = ask(engine, LOOP, **sampling)
    traces = [looked_up.trace]
    same(looked_up, plain)
    for drafter in (Told(plain.ids), Told(plain.ids, wrong=3), Garbage()):
        drafting(monkeypatch, drafter)
        answer = ask(engine, LOOP, **sampling)
        same(answer, plain)
        assert answer.trace.kv_bytes == plain.trace.kv_bytes
        traces.append(answer.trace)
    assert all(map(adds_up, traces))
    right, mixed, wrong = traces[1:]
    assert right.accepted == right.drafted == 20  # 4, 8, and the 8 that the room allowed
    assert 0 < mixed.accepted < mixed.drafted
    assert wrong.accepted < 2 < wrong.drafted


@pytest.mark.parametrize("model_type", ["llama", "mixtral", "gpt_oss"])
def test_a_model_that_repeats_itself_needs_fewer_steps(model_type):
    engine = engine_of(tiny_model(model_type), speculate="ngram")
    assert engine.info.speculation == "ngram speculation"
    answer = ask(engine, LOOP, tokens=40)
    assert answer.ids == ask(engine_of(tiny_model(model_type)), LOOP, tokens=40).ids
    assert answer.trace.accepted > 10
    assert answer.trace.steps == 39 - answer.trace.accepted


@pytest.mark.parametrize("tokens", [1, 2, 3, 6, 7])
@pytest.mark.parametrize("limit", [None, 30])
def test_nothing_is_drafted_beyond_the_room_of_the_answer(tokens, limit, monkeypatch):
    model = tiny_model("llama", **({} if limit is None else {"max_position_embeddings": limit}))
    plain = ask(engine_of(model), LOOP, tokens=tokens)
    lengths = []
    model.register_forward_hook(lambda *found: lengths.append(found[2]["cache"].get_seq_length()), with_kwargs=True)
    drafter = drafting(monkeypatch, Told([*plain.ids, *range(2, 40)]))
    answer = ask(engine_of(model, speculate="ngram"), LOOP, tokens=tokens)
    assert answer.ids == plain.ids
    assert answer.trace.finish_reason == plain.trace.finish_reason
    assert max(lengths) <= len(LOOP) + plain.trace.generated - 1
    assert all(count < plain.trace.generated for count in drafter.asked)
    assert adds_up(answer.trace)


def test_drafts_grow_while_they_hold_and_shrink_when_they_fail(monkeypatch):
    model = tiny_model("llama")
    plain = ask(engine_of(model), LOOP, tokens=100)
    drafter = drafting(monkeypatch, Told(plain.ids[:60]))
    ask(engine_of(model, speculate="ngram"), LOOP, tokens=100)
    assert drafter.asked[:6] == [4, 8, 16, 16, 16, 16]
    drafter = drafting(monkeypatch, Told([3] * 100))
    ask(engine_of(model, speculate="ngram"), LOOP, tokens=20)
    assert drafter.asked[:3] == [4, 1, 1]


def test_drafts_never_mix_rotary_frequencies(monkeypatch):
    rope = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 4, "long_factor": [4.0] * 4}
    rope |= {"factor": 8.0, "original_max_position_embeddings": 32}
    model = tiny_model("phi3", rope_parameters=rope, original_max_position_embeddings=32)
    record_choices(monkeypatch)
    plain = ask(engine_of(model), LOOP)
    drafter = drafting(monkeypatch, Told(plain.ids))
    answer = ask(engine_of(model, speculate="ngram"), LOOP)
    same(answer, plain)
    assert drafter.asked[:3] == [4, 8, 8]
    drafter = drafting(monkeypatch, Told(plain.ids[1:]))
    prompt = [*LOOP, *plain.ids[:1]]
    same(ask(engine_of(model, speculate="ngram"), prompt), ask(engine_of(model), prompt))
    assert drafter.asked[0] == 3, "the forward would have crossed the border"


# The cache afterwards


def turns(talk):
    """A conversation with an interrupt in decode and one in prefill, an extension, an edit and a return."""
    first = talk.both(LOOP, tokens=12)
    second = [*LOOP, *first.ids, *LOOP[:9]]
    cut = talk.both(second, tokens=12, cancel=After(7))  # three chunks, four tokens
    assert cut.trace.finish_reason == "interrupted"
    assert len(cut.ids) == 4
    talk.settled()
    third = [*second, *cut.ids, *range(60, 77)]
    assert talk.both(third, cancel=After(2)).trace.finish_reason == "interrupted"
    talk.settled()
    last = talk.both(third, tokens=12)
    talk.settled()
    ids = [*third, *last.ids]
    for more in ({}, SAMPLED):
        extended = talk.both([*ids, *LOOP], tokens=12, **more)
        talk.settled()
        assert extended.trace.cached == len(ids) - 1
        ids = [*ids, *LOOP, *extended.ids]
    talk.both([*ids[:20], *range(90, 97)])
    talk.both(LOOP[:9])
    talk.settled()


@pytest.mark.parametrize("source", ["ngram", "itself", "another"])
@pytest.mark.parametrize("variant", ["llama", "gemma3_text", "mistral, its window filled while answering"])
def test_turns_on_one_cache_answer_as_on_a_fresh_one_without_drafts(source, variant, monkeypatch):
    model_type, more = VARIANTS[variant]
    model = tiny_model(model_type, **more)
    record_choices(monkeypatch)
    if source == "ngram":
        engine = engine_of(model, speculate="ngram", chunk=4)
    else:
        draft = model if source == "itself" else tiny_model("gemma2", seed=3)
        engine = with_draft(model, draft, chunk=4)
    with Speculating(model, engine) as talk:
        turns(talk)


def test_a_prompt_after_speculation_leaves_no_more_in_a_window_than_one_before_it():
    model = tiny_model("mistral")
    engine = engine_of(model, speculate="ngram", chunk=4)
    first = ask(engine, LOOP, reuse=True)
    assert first.trace.drafted > 0
    prompt = [*LOOP, *first.ids, *LOOP]
    after = ask(engine, prompt, tokens=1, reuse=True).trace
    assert after.cached > len(LOOP)
    assert after.kv_bytes == ask(engine_of(model), prompt, tokens=1).trace.kv_bytes


@pytest.mark.parametrize("end", ["eos", "stop", "length", "context", "interrupted"])
@pytest.mark.parametrize(("model_type", "seed", "first"), [("llama", 2, 40), ("gemma3_text", 1, 50)])
def test_an_end_inside_a_run_of_drafts_that_hold(end, model_type, seed, first, monkeypatch):
    tokenizer = byte_tokenizer()
    prompt = list(range(first, first + 11))
    limit = 15 if end == "context" else 256
    model = tiny_model(model_type, seed, vocab_size=258, max_position_embeddings=limit)
    record_choices(monkeypatch)
    known = ask(engine_of(model), prompt, tokens=4 if end == "context" else 12).ids
    assert len(set(known[:4])) == 4, "the fourth id has to be where the answer ends"
    if end == "eos":
        model.config.eos_token_id = known[3]
    engine = engine_of(model, tokenizer, speculate="ngram", chunk=4)
    with Speculating(model, engine, tokenizer) as talk:
        drafting(monkeypatch, Told([*known, *known]))
        stop = (tokenizer.decode(known[3:4]),) if end == "stop" else ()
        cancel = After(7) if end == "interrupted" else None  # three chunks, and before the fifth id
        answer = talk.ask(prompt, tokens=4 if end == "length" else 50, stop=stop, cancel=cancel)
        trace = answer.trace
        assert trace.finish_reason == end
        assert answer.ids == known[:4]
        assert (trace.steps, trace.accepted) == (1, 2)
        assert trace.drafted == (2 if end in {"length", "context"} else 4)
        talk.settled()
        assert talk.held == [*prompt, *known[:3]]
        drafting(monkeypatch, Garbage())
        follow = prompt if end == "context" else [*prompt, *answer.ids, 40]
        same(talk.ask(follow, tokens=3), talk.fresh(follow, tokens=3))


@pytest.mark.parametrize("sampling", [{}, SAMPLED], ids=["greedy", "sampled"])
def test_logits_that_are_not_finite_end_the_answer_where_they_end_it_without_drafts(sampling, monkeypatch):
    model = tiny_model("llama")
    known = ask(engine_of(model), LOOP, **sampling).ids
    model.register_forward_hook(spoil_position(len(LOOP) + 3), with_kwargs=True)
    plain = ask(engine_of(model), LOOP, **sampling)
    drafting(monkeypatch, Told(known))
    answer = ask(engine_of(model, speculate="ngram"), LOOP, **sampling)
    assert plain.ids == answer.ids == known[:4]
    for trace in (plain.trace, answer.trace):
        assert trace.finish_reason == "error"
        assert "not finite" in trace.error.message
    assert answer.trace.accepted > 0


def spoil_position(position):
    def spoil(_model, _args, kwargs, output):
        start = kwargs["cache"].get_seq_length() - output.logits.shape[1]
        output.logits[:, [start + i == position for i in range(output.logits.shape[1])]] = float("nan")

    return spoil


def test_a_failure_gives_both_caches_up():
    model, draft = tiny_model("llama"), tiny_model("llama", seed=1)
    engine = with_draft(model, draft)
    first = ask(engine, LOOP, reuse=True)
    assert engine._live.draft.bytes > 0
    hook = draft.register_forward_hook(fail_on(3))
    failed = ask(engine, [*LOOP, *first.ids, 30], reuse=True).trace
    assert (failed.finish_reason, engine._live.bytes, engine._live.draft.bytes) == ("error", 0, 0)
    hook.remove()
    again = [*LOOP, *first.ids, 30]
    assert ask(engine, again, reuse=True).ids == ask(engine_of(model), again).ids


def fail_on(number):
    calls = []

    def fail(*_):
        calls.append(1)
        if len(calls) == number:
            raise RuntimeError("boom")

    return fail


# The draft model


def test_a_model_drafts_for_itself_without_an_error():
    model = tiny_model("llama")
    answer = ask(with_draft(model, model), LOOP)
    assert answer.ids == ask(engine_of(model), LOOP).ids
    assert answer.trace.accepted == answer.trace.drafted > 15
    assert adds_up(answer.trace)


def test_a_draft_model_reads_what_is_new_once_and_inside_prefill():
    model, draft = tiny_model("llama"), tiny_model("llama", seed=1)
    engine = with_draft(model, draft, chunk=8)
    read = []
    draft.register_forward_pre_hook(lambda *found: read.append(found[2]["input_ids"][0].tolist()), with_kwargs=True)
    first = ask(engine, LOOP, tokens=1, reuse=True)
    assert [i for ids in read for i in ids] == LOOP
    assert first.trace.prefill_ended > first.trace.prefill_started
    read.clear()
    second = ask(engine, [*LOOP, *first.ids, 40, 41], tokens=1, reuse=True)
    assert second.trace.cached == len(LOOP)
    assert [i for ids in read for i in ids] == [*first.ids, 40, 41]
    read.clear()
    ask(engine, LOOP, tokens=1)
    assert sum(map(len, read)) == len(LOOP), "a request that reuses nothing must not find a cache of drafts"


def test_a_draft_model_reads_what_held_only_once():
    model = tiny_model("llama")
    draft = tiny_model("llama")
    engine = with_draft(model, draft)
    read = []
    draft.register_forward_pre_hook(lambda *found: read.append(found[2]["input_ids"].shape[1]), with_kwargs=True)
    first = ask(engine, LOOP, reuse=True)
    assert first.trace.accepted == first.trace.drafted
    assert sum(read) <= len(LOOP) + first.trace.generated
    read.clear()
    ask(engine, [*LOOP, *first.ids, 40, 41], tokens=1, reuse=True)
    assert sum(read) <= 2 + 1 + ModelDrafter.most, "at most the last run of drafts is read again"


def test_a_draft_model_with_fewer_ids_and_less_context_drafts_as_far_as_it_can():
    model, draft = tiny_model("llama"), tiny_model("llama", vocab_size=200, max_position_embeddings=34)
    engine = with_draft(model, draft)
    prompt = [*LOOP, 299, 250]
    answer = ask(engine, prompt, tokens=30)
    assert answer.ids == ask(engine_of(model), prompt, tokens=30).ids
    assert 0 < answer.trace.drafted <= 4 + 1 + 1 + 1  # four drafts fit, then three, two and one, of which one is tried
    beyond = ask(engine, LOOP * 2, tokens=10)
    assert beyond.ids == ask(engine_of(model), LOOP * 2, tokens=10).ids
    assert beyond.trace.drafted == 0


# Where there is no speculation


@pytest.mark.parametrize("model_type", ["mamba", "recurrent_gemma"])
def test_a_type_that_cannot_be_continued_says_so_and_answers(model_type):
    more = {"mamba": {"state_size": 4}, "recurrent_gemma": {"head_dim": 8, "lru_width": 32}}[model_type]
    engine = engine_of(tiny_model(model_type, **more), speculate="ngram")
    assert engine.info.speculation is None
    assert any("no speculation" in notice and model_type in notice for notice in engine.info.notices)
    trace = ask(engine, LOOP, tokens=6).trace
    assert (trace.steps, trace.drafted, trace.error) == (5, 0, None)


def test_a_batch_is_decoded_without_drafts():
    model = tiny_model("llama")
    rows = {}
    for speculate in ("none", "ngram"):
        request = GenerateRequest(tuple(LOOP), greedy(8), ignore_eos=True, beside=(tuple(LOOP[::-1]),))
        events = list(engine_of(model, speculate=speculate).generate(request, threading.Event()))
        rows[speculate] = [(event.token_id, *event.beside) for event in events if isinstance(event, Piece)]
        assert (events[-1].trace.steps, events[-1].trace.drafted) == (7, 0)
    assert rows["ngram"] == rows["none"]
