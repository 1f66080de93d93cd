"""One request through the engine: phases, ends, cancels and failures."""

import itertools
import threading

import pytest
import torch
from tiny_models import Scripted, byte_tokenizer, engine_of, greedy, tiny_model

from llmcli.errors import EngineFault, OutOfMemory, UsageError
from llmcli.inference import Finished, GenerateRequest, Message, Piece, PrefillProgress
from llmcli.metrics.phases import Delivery, seconds_of

TOKENIZER = byte_tokenizer()
PROMPT = tuple(range(2, 12))


def ids_of(text):
    return TOKENIZER(text, add_special_tokens=False).input_ids


def ask(model, *, max_new_tokens=50, stop=(), cancel=None, prompt=PROMPT, **more):
    engine = engine_of(model, TOKENIZER, **more)
    request = GenerateRequest(prompt, greedy(max_new_tokens), stop)
    events = list(engine.generate(request, cancel or threading.Event()))
    engine.close()
    assert sum(isinstance(event, Finished) for event in events) == 1
    assert isinstance(events[-1], Finished)
    text = "".join(event.text for event in events if not isinstance(event, PrefillProgress))
    return text, events[-1].trace, events


def script(text, *more):
    return [*ids_of(text), *more]


def test_an_answer_of_n_tokens_is_one_prefill_and_n_minus_1_forwards():
    model = Scripted(script("hello", 1), len(PROMPT))
    text, trace, _ = ask(model, chunk=4)
    assert text == "hello"
    assert model.lengths == [4, 4, 2] + [1] * 5
    assert (trace.generated, trace.steps, trace.finish_reason) == (6, 5, "eos")


def test_no_forward_follows_a_stop_text_or_the_last_allowed_token():
    model = Scripted(script("alpha beta gamma"), len(PROMPT))
    text, trace, _ = ask(model, stop=("a g",))
    assert (text, trace.finish_reason, trace.generated) == ("alpha bet", "stop", len("alpha beta g"))
    assert len(model.lengths) == trace.generated
    model = Scripted(script("alpha"), len(PROMPT))
    text, trace, _ = ask(model, max_new_tokens=3)
    assert (text, trace.finish_reason) == ("alp", "length")
    assert len(model.lengths) == 3


def test_the_context_limit_ends_the_answer():
    text, trace, _ = ask(Scripted(script("alphabet"), len(PROMPT)), context=14)
    assert (text, trace.finish_reason) == ("alph", "context")


def test_a_gpt2_model_stops_at_its_last_position():
    _, trace, _ = ask(tiny_model("gpt2", n_positions=16, eos_token_id=None), max_new_tokens=100)
    assert trace.finish_reason in {"context", "eos"}
    assert trace.prompt + trace.generated <= 16


@pytest.mark.parametrize("length", [14, 15, 300])
def test_a_prompt_that_fills_the_context_is_refused_with_both_numbers(length):
    engine = engine_of(Scripted(script("x"), length), TOKENIZER, context=14)
    with pytest.raises(UsageError, match=rf"\b{length} tokens.*\b14 tokens"):
        list(engine.generate(GenerateRequest(tuple([5] * length), greedy(4)), threading.Event()))


def test_text_cut_inside_a_character_ends_cleanly():
    text, trace, _ = ask(Scripted(script("안녕"), len(PROMPT)), max_new_tokens=5)
    assert (text, trace.finish_reason) == ("안\ufffd", "length")


def test_every_token_is_an_event_as_soon_as_it_is_known():
    model = Scripted(script("abc", 1), len(PROMPT))
    engine = engine_of(model, TOKENIZER)
    events = engine.generate(GenerateRequest(PROMPT, greedy(9)), threading.Event())
    assert [event.text for event in events if isinstance(event, Piece)] == ["a", "b", "c", ""]


def test_phases_are_contiguous_under_an_injected_clock():
    ticks = itertools.count()
    model = Scripted(script("hello", 1), len(PROMPT))
    engine = engine_of(model, TOKENIZER, clock=lambda: next(ticks), chunk=4)
    trace = list(engine.generate(GenerateRequest(PROMPT, greedy(9)), threading.Event()))[-1].trace
    seconds = seconds_of(trace, Delivery(None, delivered=next(ticks)))
    parts = ("queue", "template", "tokenize", "network", "prefill", "first_sample", "unattributed")
    assert sum(getattr(seconds, part) for part in parts) == seconds.ttft
    assert seconds.ttft + seconds.decode + seconds.tail == seconds.total
    assert trace.arrivals == tuple(sorted(trace.arrivals))


def test_the_template_writes_the_only_bos():
    model = Scripted(script("ok", 1), 0)
    model.prompt = len(ids_of("<|bos|><user>hi</user><assistant>"))
    _, trace, _ = ask(model, prompt=(Message("user", "hi"),))
    assert trace.prompt == 1 + len("<user>hi</user><assistant>")
    assert trace.finish_reason == "eos"


def test_a_model_without_a_template_completes_plain_text():
    engine = engine_of(Scripted(script("ok", 1), 2), byte_tokenizer(template=None))
    assert any("no chat template" in notice for notice in engine.info.notices)
    events = list(engine.generate(GenerateRequest((Message("user", "hi"),), greedy(4)), threading.Event()))
    assert events[-1].trace.prompt == 2


def test_a_cancel_between_chunks_ends_prefill():
    cancel = threading.Event()
    model = Scripted(script("hello"), len(PROMPT), on_forward=lambda n: cancel.set() if n == 1 else None)
    text, trace, events = ask(model, cancel=cancel, chunk=3)
    assert (text, trace.finish_reason, trace.generated, trace.evaluated) == ("", "interrupted", 0, 6)
    assert [event.evaluated for event in events if isinstance(event, PrefillProgress)] == [0, 3, 6]
    seconds = seconds_of(trace, Delivery(None, trace.ended))
    assert seconds.ttft is None
    assert seconds.prefill > 0


def test_a_cancel_ends_decode_within_one_step_and_keeps_the_text():
    cancel = threading.Event()
    model = Scripted(script("hello world"), len(PROMPT), on_forward=lambda n: cancel.set() if n == 4 else None)
    text, trace, _ = ask(model, cancel=cancel)
    assert (text, trace.finish_reason) == ("hello", "interrupted")
    assert len(model.lengths) == 5


def test_a_caller_that_stops_listening_stops_the_engine():
    forwards = threading.Semaphore(0)
    model = Scripted(script("x" * 200), len(PROMPT), on_forward=lambda _n: forwards.release())
    engine = engine_of(model, TOKENIZER)
    events = engine.generate(GenerateRequest(PROMPT, greedy(200)), threading.Event())
    while not isinstance(next(events), Piece):
        pass
    events.close()
    engine._thread.call(lambda: None)  # the thread is free again
    assert len(model.lengths) < 200


def test_a_fault_in_the_engine_keeps_text_and_figures():
    model = Scripted(script("hello"), len(PROMPT), break_at=3, error=RuntimeError("boom [bold]"))
    text, trace, _ = ask(model)
    assert (text, trace.finish_reason, trace.generated) == ("hel", "error", 3)
    assert isinstance(trace.error, EngineFault)
    assert "boom [bold]" in trace.error.message


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory."), MemoryError(), RuntimeError("not enough memory: you tried")],
)
def test_out_of_memory_is_said_with_the_cure(error):
    model = Scripted(script("hello"), len(PROMPT), break_at=0, error=error)
    text, trace, _ = ask(model)
    assert (text, trace.finish_reason) == ("", "memory")
    assert isinstance(trace.error, OutOfMemory)
    assert trace.error.exit_code == 4
    assert "10 tokens" in trace.error.hint


def test_logits_that_are_not_finite_end_the_answer_in_words():
    model = tiny_model("llama")
    model.lm_head.weight.fill_(float("nan"))
    _, trace, _ = ask(model)
    assert (trace.finish_reason, trace.generated) == ("error", 0)
    assert "not finite" in trace.error.message


def test_ignore_eos_runs_to_the_last_token():
    engine = engine_of(Scripted(script("ab", 1) + script("cd", 1), len(PROMPT)), TOKENIZER)
    request = GenerateRequest(PROMPT, greedy(5), ignore_eos=True)
    trace = list(engine.generate(request, threading.Event()))[-1].trace
    assert (trace.generated, trace.finish_reason) == (5, "length")


def test_all_requests_run_on_one_thread():
    threads = set()
    model = Scripted(script("x", 1), len(PROMPT), on_forward=lambda _n: threads.add(threading.current_thread().name))
    engine = engine_of(model, TOKENIZER)
    for _ in range(3):
        model.lengths.clear()
        list(engine.generate(GenerateRequest(PROMPT, greedy(3)), threading.Event()))
    assert threads == {"inference"}


def test_an_id_without_a_token_leaves_no_text():
    model = Scripted([*ids_of("a"), 299, *ids_of("b"), 1], len(PROMPT), vocab_size=300)
    text, trace, _ = ask(model)
    assert (text, trace.generated) == ("ab", 4)
