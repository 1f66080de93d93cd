"""The law of prefix reuse: continuing the cache of earlier requests never changes an answer."""

import itertools
import threading

import pytest
from conversations import After, Conversation, same
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import byte_tokenizer, engine_of, greedy, tiny_model

from llmcli.errors import UsageError
from llmcli.inference import GenerateRequest
from llmcli.prefill_rules import CONTINUABLE

VARIANTS = {
    **{name: (name, {}) for name in sorted(CONTINUABLE)},
    "gemma4_text, layers that share K and V": (
        "gemma4_text",
        {
            "num_hidden_layers": 4,
            "num_kv_shared_layers": 2,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
        },
    ),
    "phi3, sliding": ("phi3", {"sliding_window": 8}),
    "qwen2, sliding": ("qwen2", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}),
    "smollm3, sliding": (
        "smollm3",
        {
            "use_sliding_window": True,
            "sliding_window": 8,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        },
    ),
}
RECURRENT = {
    "falcon_h1": {"head_dim": 8, "mamba_d_ssm": 64, "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 4},
    "falcon_mamba": {"state_size": 4},
    "jamba": {"attn_layer_offset": 1, "attn_layer_period": 2, "num_experts": 2, "mamba_d_state": 4},
    "lfm2": {"layer_types": ["conv", "full_attention", "conv"], "conv_L_cache": 3},
    "mamba": {"state_size": 4},
    "recurrent_gemma": {"head_dim": 8, "lru_width": 32, "attention_window_size": 8},
}
FIRST = list(range(2, 13))
WINDOWED = ["cohere2", "exaone4", "gemma2", "gemma3_text", "gemma4_text", "gpt_oss", "mistral", "olmo3", "starcoder2"]


def four_turns(talk, *, tokens=6):
    """A conversation with an interrupt in decode and one in prefill; returns the ids of its last request."""
    first = talk.both(FIRST, tokens=tokens)
    second = [*FIRST, *first.ids, *range(40, 45)]
    cut = talk.both(second, tokens=tokens, cancel=After(6))
    assert (cut.trace.finish_reason, len(cut.ids)) == ("interrupted", 4)
    third = [*second, *cut.ids, *range(60, 77)]
    nothing = talk.both(third, tokens=tokens, cancel=After(3))
    assert (nothing.ids, nothing.trace.finish_reason) == ([], "interrupted")
    assert 0 < nothing.trace.evaluated < len(third) - nothing.trace.cached
    last = talk.both(third, tokens=tokens)
    return [*third, *last.ids]


@pytest.mark.parametrize("variant", VARIANTS)
def test_four_turns_with_interrupts_answer_as_on_a_fresh_cache(variant):
    model_type, more = VARIANTS[variant]
    with Conversation(tiny_model(model_type, **more)) as talk:
        ids = four_turns(talk)
        extended = talk.both([*ids, *range(80, 86)], temperature=1.0, seed=3)
        assert extended.trace.cached == len(ids) - 1
        again = talk.both([*ids, *range(80, 86)], temperature=1.0, seed=3)
        assert again.ids == extended.ids
        talk.both([*ids[:20], *range(90, 97)])  # an edit in the middle of an earlier turn
        talk.both(ids[:9])
        talk.both([99, *ids[1:]])
        talk.both([*FIRST, *range(50, 53)], chunk=1)


@pytest.mark.parametrize("variant", ["llama", "gemma3_text", "gpt_oss", "deepseek_v3"])
def test_sampled_answers_and_penalties_are_those_of_a_fresh_cache(variant):
    sampling = {"temperature": 0.9, "top_p": 0.95, "seed": 7, "repetition_penalty": 1.3}
    with Conversation(tiny_model(variant)) as talk:
        first = talk.both(FIRST, tokens=8, **sampling)
        prompt = [*FIRST, *first.ids, 50, 51]
        answer = talk.both(prompt, tokens=8, **sampling)
        assert answer.trace.cached > len(FIRST)
        assert answer.ids == talk.fresh(prompt, tokens=8, **sampling).ids


@pytest.mark.parametrize("model_type", WINDOWED)
def test_a_sliding_window_is_cropped_only_while_it_has_dropped_nothing(model_type):
    with Conversation(tiny_model(model_type, sliding_window=24)) as talk:
        first = talk.both(FIRST)
        edited = talk.both([*FIRST[:8], 70, 71, 72])
        assert (edited.trace.cached, edited.trace.miss_reason) == (8, "prefix_changed")
        longer = talk.both([*FIRST[:8], 70, 71, 72, *edited.ids, *range(100, 120)])
        assert (longer.trace.cached, longer.trace.miss_reason) == (len(FIRST) + len(edited.ids) - 1, None)
        back = talk.both([*FIRST[:8], 90])
        assert (back.trace.cached, back.trace.evaluated) == (0, 9)
        assert (back.trace.cache_break_at, back.trace.miss_reason) == (8, "not_croppable")
        assert first.trace.cache_source == back.trace.cache_source == "none"


@pytest.mark.parametrize("held", [22, 23, 24, 25])
def test_the_border_of_a_window(held):
    with Conversation(tiny_model("mistral", sliding_window=24)) as talk:
        talk.both(range(2, held + 2), tokens=1)
        answer = talk.both([*range(2, 20), 200])
        assert answer.trace.cached == (18 if held < 24 else 0)


@pytest.mark.parametrize("model_type", RECURRENT)
def test_a_type_that_may_not_be_continued_answers_fresh(model_type):
    with Conversation(tiny_model(model_type, **RECURRENT[model_type])) as talk:
        assert not talk.reusing.info.cache_reuse
        talk.reusing._loaded = talk.whole._loaded
        for prompt in (FIRST, [*FIRST, 30, 31], FIRST):
            answer = talk.both(prompt)
            trace = answer.trace
            assert (trace.cached, trace.evaluated, trace.cache_source) == (0, len(prompt), "none")
            assert (trace.cache_age, trace.cache_break_at, trace.miss_reason) == (None, None, None)


def test_layers_of_an_unknown_kind_are_not_continued():
    model = tiny_model("lfm2", **RECURRENT["lfm2"])
    model.config.model_type = "llama"
    with Conversation(model, chunk=64) as talk:
        assert talk.reusing.info.cache_reuse
        talk.both(FIRST)
        assert talk.both([*FIRST, 30, 31]).trace.cached == 0


def test_frequencies_that_change_with_the_length_are_never_mixed():
    rope = {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": [1.0] * 4,
        "long_factor": [4.0] * 4,
        "factor": 8.0,
        "original_max_position_embeddings": 32,
    }
    with Conversation(tiny_model("phi3", rope_parameters=rope, original_max_position_embeddings=32)) as talk:
        short = talk.both(range(2, 25))
        crossing = talk.both([*range(2, 25), *short.ids, 50, 51], tokens=9)
        assert crossing.trace.cached > 0
        after = talk.both([*range(2, 25), *short.ids, 50, 51, *crossing.ids, 60])
        assert (after.trace.cached, after.trace.miss_reason) == (0, "not_croppable")
        assert [done for done, _ in after.progress] == [0, after.trace.prompt]
        back = talk.both(range(2, 20))
        assert (back.trace.cached, back.trace.miss_reason) == (0, "not_croppable")
        assert talk.both(range(2, 25)).trace.cached == 18


# What a trace says


def test_a_turn_reports_where_its_tokens_came_from():
    ticks = itertools.count()
    with Conversation(tiny_model("llama"), clock=lambda: next(ticks)) as talk:
        first = talk.ask(FIRST).trace
        assert (first.cached, first.evaluated, first.cache_source) == (0, 11, "none")
        assert (first.cache_age, first.cache_break_at, first.miss_reason) == (None, None, None)
        answer = talk.ask([*FIRST, 200, 201])
        second = answer.trace
        assert (second.prompt, second.cached, second.evaluated, second.cache_source) == (13, 11, 2, "live")
        assert (second.cache_break_at, second.miss_reason) == (11, "prefix_changed")
        assert answer.progress == [(0, 2), (2, 2)]
        assert second.submitted - first.ended < second.cache_age < second.prefill_started - first.ended
        assert second.kv_bytes == talk.fresh([*FIRST, 200, 201]).trace.kv_bytes


@pytest.mark.parametrize(
    ("change", "cached", "break_at", "reason"),
    [
        (lambda held: [*held, 200], 15, None, None),
        (lambda held: held, 14, None, None),
        (lambda held: held[:6], 5, None, None),
        (lambda held: [*held[:6], 200, 201], 6, 6, "prefix_changed"),
        (lambda held: [200, *held[1:]], 0, 0, "prefix_changed"),
        (lambda held: held[:1], 0, None, None),
    ],
    ids=["extended", "equal", "ends inside", "edited", "cleared", "one id"],
)
def test_where_a_cache_breaks(change, cached, break_at, reason):
    with Conversation(tiny_model("llama")) as talk:
        talk.ask(FIRST)
        prompt = change(talk.held)
        trace = talk.both(prompt).trace
        assert (trace.cached, trace.evaluated) == (cached, len(prompt) - cached)
        assert (trace.cache_break_at, trace.miss_reason) == (break_at, reason)
        assert trace.cache_source == ("live" if cached else "none")


def test_an_interrupted_prefill_reports_what_was_evaluated_and_keeps_it():
    with Conversation(tiny_model("llama"), chunk=3) as talk:
        talk.ask(FIRST, tokens=1)
        prompt = [*FIRST, *range(60, 80)]
        trace = talk.ask(prompt, cancel=After(3)).trace
        assert (trace.prompt, trace.cached, trace.evaluated, trace.finish_reason) == (31, 11, 9, "interrupted")
        assert talk.both(prompt).trace.cached == 20


def test_a_cancel_before_the_first_chunk_leaves_the_cache_as_it_was():
    with Conversation(tiny_model("llama")) as talk:
        talk.ask(FIRST)
        held = list(talk.held)
        trace = talk.ask([*FIRST[:4], 200], cancel=After(0)).trace
        assert (trace.evaluated, trace.prefill_started) == (0, None)
        assert talk.both([*held, 200]).trace.cached == len(held)


def test_a_refused_prompt_leaves_the_cache_as_it_was():
    with Conversation(tiny_model("llama")) as talk:
        talk.ask(FIRST)
        with pytest.raises(UsageError):
            talk.ask(range(2, 290))
        assert talk.both([*FIRST, 30]).trace.cached == len(FIRST)


def test_the_context_limit_counts_cached_tokens():
    model = tiny_model("llama", max_position_embeddings=16)
    with Conversation(model) as talk:
        talk.ask(FIRST)
        trace = talk.both([*FIRST, 200], tokens=50).trace
        assert (trace.cached, trace.generated, trace.finish_reason) == (11, 4, "context")
        with pytest.raises(UsageError, match=r"\b16 tokens"):
            talk.ask([*FIRST, *range(40, 45)])


def test_a_request_that_does_not_reuse_leaves_no_cache_behind():
    with Conversation(tiny_model("llama")) as talk:
        talk.ask(FIRST)
        plain = list(talk.reusing.generate(GenerateRequest(tuple(FIRST), greedy(4)), threading.Event()))[-1].trace
        assert (plain.cached, plain.evaluated, plain.cache_source) == (0, len(FIRST), "none")
        assert (plain.cache_age, plain.miss_reason) == (None, None)
        after = talk.both([*FIRST, 30]).trace
        assert (after.cached, after.cache_age, after.miss_reason) == (0, None, "evicted")


# What the cache holds


@pytest.mark.parametrize("end", ["eos", "stop", "length", "context", "interrupted"])
def test_whatever_ends_an_answer_its_last_token_is_not_in_the_cache(end):
    tokenizer = byte_tokenizer()
    model = tiny_model("llama", max_position_embeddings=16 if end == "context" else 256, vocab_size=258)
    with Conversation(model, tokenizer) as talk:
        ids = talk.fresh(FIRST, tokens=5).ids
        if end == "eos":
            model.config.eos_token_id = ids[3]
            talk.reusing = engine_of(model, tokenizer, chunk=4)
        stop = (tokenizer.decode(ids[2:4]),) if end == "stop" else ()
        cancel = After(6) if end == "interrupted" else None  # three chunks, three tokens
        answer = talk.ask(FIRST, tokens=4 if end == "length" else 50, stop=stop, cancel=cancel)
        assert answer.trace.finish_reason == end
        assert list((talk.reusing._live._rows or ((),))[0]) == talk.held == [*FIRST, *answer.ids[:-1]]
        follow = [*FIRST, *answer.ids] if end != "context" else FIRST
        same(talk.ask(follow, tokens=3), talk.fresh(follow, tokens=3))


prompts = st.lists(st.sampled_from([2, 3]), min_size=1, max_size=14)
request = st.tuples(prompts, st.integers(1, 4), st.integers(1, 6), st.one_of(st.none(), st.integers(0, 6)))


@settings(max_examples=60, deadline=None)
@given(st.lists(request, min_size=2, max_size=5), st.booleans())
def test_any_sequence_of_requests_holds_what_was_forwarded_and_answers_the_same(requests, follows):
    with Conversation(MODEL) as talk:
        said = []
        for ids, tokens, chunk, steps in requests:
            prompt = [*said, *ids] if follows else ids
            cancel = None if steps is None else After(steps)
            answer = talk.both(prompt, tokens=tokens, chunk=chunk, cancel=cancel)
            trace = answer.trace
            said = [*prompt, *answer.ids]
            if answer.ids:
                assert trace.cached + trace.evaluated == trace.prompt
            assert answer.forwarded == [*prompt[trace.cached :][: trace.evaluated], *answer.ids[:-1]]
            assert list((talk.reusing._live._rows or ((),))[0]) == talk.held


MODEL = tiny_model("llama")
