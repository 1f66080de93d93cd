"""The conversation loop with a scripted person and a scripted engine: what reaches the engine, what is said."""

import threading
from contextlib import nullcontext
from dataclasses import replace

import pytest
from traces import INFO, trace_of

from llmcli.chat.loading import Loading
from llmcli.chat.repl import Face, Repl
from llmcli.chat.settings import Settings
from llmcli.errors import EngineFault, LlmcliError, ModelError, OutOfMemory, OutputClosed, UsageError
from llmcli.inference import Finished, Message, Piece, PrefillProgress, SamplingOptions


class Person:
    """Types the given lines, one after the other, then Ctrl-D."""

    waiting = False

    def __init__(self, lines, begin):
        self._lines, self._begin = list(lines), begin

    def read(self):
        self._begin()
        if not self._lines:
            raise EOFError
        line = self._lines.pop(0)
        return line() if callable(line) else line

    def talking(self):
        return nullcontext()

    def answering(self):
        return nullcontext()

    def leave(self, error):
        return False

    def above(self, show):
        return None


class Engine:
    """Answers each request with the next of `answers`: a text, an error, or both."""

    def __init__(self, answers, info=INFO):
        self.info = info
        self.requests = []
        self._answers = list(answers)
        self._time = 0.0

    def clock(self):
        self._time += 1
        return self._time

    def close(self):
        pass

    def generate(self, request, cancel):
        self.requests.append(request)
        said = self._answers.pop(0)
        text, error, reason = said if isinstance(said, tuple) else (said, None, "eos")
        if isinstance(error, UsageError):
            raise error
        start = self.clock()
        times = {"submitted": start, "taken": start, "templated": start, "tokenized": start, "prefill_started": start}
        yield PrefillProgress(2, 2)
        arrivals = []
        for letter in text:
            arrivals.append(self.clock())
            yield Piece(5, letter, arrivals[-1])
        done = {"prefill_ended": start, "arrivals": tuple(arrivals), "ended": self.clock()}
        yield Finished("", trace_of(**times, **done, finish_reason=reason, error=error))


class Screen:
    def __init__(self, shown, error=None):
        self._shown, self._error = shown, error

    def prefill(self, evaluated, total):
        pass

    def write(self, text):
        if self._error:
            raise self._error
        self._shown.append(text)

    def end(self):
        self._shown.append("\n")


def talk(lines, answers, *, info=INFO, system="", load=None, screen_error=None):
    """Run a conversation; returns the engine and what was said, failed and shown."""
    engine = Engine(answers, info)
    loading = Loading(load or (lambda: engine))
    said, failed, shown, kept = [], [], [], []
    face = Face(
        say=said.append,
        fail=failed.append,
        waiting=nullcontext,
        loaded=lambda _: None,
        screen=lambda: Screen(shown, screen_error),
        finished=lambda result, _: kept.append(result.record),
        rows=said.extend,
        figures=kept.append,
    )
    done = threading.Event()
    person = Person(lines, lambda: loading.begin(done.set))
    repl = Repl(person, loading, face, system=system, settings=Settings(SamplingOptions(), SamplingOptions()))
    try:
        repl.run()
    finally:
        engine.said, engine.failed, engine.shown, engine.kept, engine.repl = said, failed, "".join(shown), kept, repl
    return engine


def turns(request):
    return [(message.role, message.content) for message in request.prompt]


def test_every_question_carries_the_turns_before_it():
    engine = talk(["one", "two"], ["first", "second"], system="be brief")
    system = ("system", "be brief")
    assert turns(engine.requests[0]) == [system, ("user", "one")]
    assert turns(engine.requests[1]) == [system, ("user", "one"), ("assistant", "first"), ("user", "two")]
    assert engine.shown == "first\nsecond\n"
    assert len(engine.kept) == 2


def test_what_is_generated_is_kept_to_the_last_blank():
    engine = talk(["one", "two"], ["  first\n\n", "x"])
    assert turns(engine.requests[1])[1] == ("assistant", "  first\n\n")


def test_an_interrupted_answer_stays_in_the_conversation():
    engine = talk(["one", "two"], [("par", None, "interrupted"), "x"])
    assert turns(engine.requests[1]) == [("user", "one"), ("assistant", "par"), ("user", "two")]


@pytest.mark.parametrize("reason", ["interrupted", "memory", "error"])
def test_a_question_without_an_answer_leaves_no_trace(reason):
    error = {"memory": OutOfMemory("out of memory", "shorten"), "error": EngineFault("broken")}.get(reason)
    engine = talk(["one", "two"], [("", error, reason), "x"])
    assert turns(engine.requests[1]) == [("user", "two")]
    assert any("not part of the conversation" in str(line) for line in engine.said)
    assert engine.failed == ([error] if error else [])


def test_a_fault_in_mid_answer_keeps_the_text_and_the_conversation():
    error = EngineFault("broken")
    engine = talk(["one", "two"], [("half", error, "error"), "x"])
    assert engine.failed == [error]
    assert turns(engine.requests[1]) == [("user", "one"), ("assistant", "half"), ("user", "two")]
    assert len(engine.kept) == 2


def test_roles_alternate_whatever_happens():
    answers = [("", None, "interrupted"), "a", ("b", None, "interrupted"), ("", EngineFault("x"), "error"), "", "c"]
    engine = talk([f"q{i}" for i in range(len(answers))], answers)
    for request in engine.requests:
        roles = [role for role, _ in turns(request)]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]


def test_a_prompt_that_does_not_fit_is_refused_and_the_conversation_lives():
    refusal = UsageError("the prompt has 9999 tokens", "Shorten it.")
    engine = talk(["long", "short"], [("", refusal, "error"), "x"])
    assert engine.failed == [refusal]
    assert turns(engine.requests[1]) == [("user", "short")]


def test_clear_forgets_the_turns_and_keeps_the_system_text():
    engine = talk(["one", "/clear", "two"], ["a", "b"], system="s")
    assert turns(engine.requests[1]) == [("system", "s"), ("user", "two")]
    assert engine.said == ["forgotten: 1 turn; the system text stays"]
    assert talk(["/clear"], []).said == ["forgotten: 0 turns"]


def test_system_text_can_be_set_and_removed():
    engine = talk(["/system be kind", "one", "/system off", "two"], ["a", "b"])
    assert turns(engine.requests[0])[0] == ("system", "be kind")
    assert turns(engine.requests[1])[0] == ("user", "one")


def test_a_template_without_a_system_role_is_said_once():
    engine = talk(["one", "two"], ["a", "b"], system="s", info=replace(INFO, system_role=False))
    assert sum("no system role" in str(line) for line in engine.said) == 1


def test_reuse_is_asked_for_where_the_model_can():
    assert [r.reuse_cache for r in talk(["one"], ["a"], info=replace(INFO, cache_reuse=True)).requests] == [True]
    assert [r.reuse_cache for r in talk(["one"], ["a"]).requests] == [False]


def test_a_model_that_cannot_reuse_is_said_once_when_it_matters():
    assert talk(["one"], ["a"]).said == []
    assert sum("evaluates the whole conversation" in str(line) for line in talk(["a", "b", "c"], ["x"] * 3).said) == 1
    said = talk(["a", "b"], ["x"] * 2, info=replace(INFO, cache_reuse=True)).said
    assert said == []


def test_empty_lines_and_unknown_commands_are_not_sent():
    engine = talk(["", "  ", "/exti"], [])
    assert engine.requests == []
    assert "Did you mean /exit" in engine.said[0]


def test_exit_leaves_before_the_next_line():
    assert talk(["/exit", "one"], []).requests == []


def test_what_loading_raised_ends_the_conversation():
    def broken():
        raise ModelError("no such file")

    with pytest.raises(ModelError, match="no such file"):
        talk(["one", "two"], [], load=broken)


def test_whatever_loading_raises_is_told_in_words():
    def broken():
        raise FileNotFoundError("no usable temporary directory")

    with pytest.raises(EngineFault, match="no usable temporary directory"):
        talk(["one", "two"], [], load=broken)


def test_a_full_context_names_the_way_out():
    refusal = UsageError("the prompt has 76 tokens", "Shorten it.")
    long = "x" * INFO.context_limit
    assert not any("/clear" in str(line) for line in talk(["one", long], ["a", ("", refusal, "error")]).said)
    assert any("/clear" in str(line) for line in talk(["one", "two"], ["a", ("", refusal, "error")]).said)


def test_a_command_with_too_much_behind_it_does_nothing():
    engine = talk(["one", "/clear now", "/exit now", "two"], ["a", "b"])
    assert len(turns(engine.requests[1])) == 3


def test_a_reader_that_goes_away_ends_the_conversation():
    with pytest.raises(OutputClosed):
        talk(["one", "two"], ["a", "b"], screen_error=OutputClosed())


def test_errors_of_commands_are_said_and_forgotten():
    engine = talk(["/set top_p 9", "/set top_p 0.9", "one"], ["a"])
    assert isinstance(engine.failed[0], LlmcliError)
    assert engine.requests[0].sampling.top_p == 0.9


def test_messages_are_what_the_engine_interface_says():
    assert isinstance(talk(["one"], ["a"]).requests[0].prompt[0], Message)
