"""One question from prompt to figures: read, load, answer, show."""

import time

from llmcli import console
from llmcli.chat.answer import Answer, answer
from llmcli.chat.conversation import NO_SYSTEM_ROLE
from llmcli.chat.interrupt import cancel_on_interrupt
from llmcli.chat.prompt import read_messages
from llmcli.chat.sampling import greedy_notice, resolve_sampling
from llmcli.chat.screen import screen_for
from llmcli.cli.compiling import tell_not_compiled
from llmcli.cli.fetching import find
from llmcli.cli.figures import show_figures
from llmcli.cli.opening import open_engine
from llmcli.cli.question import Display, Question
from llmcli.cli.recording import Recorder
from llmcli.cli.reporting import tell_notices, tell_why_cut
from llmcli.errors import OutputFailed, UsageError
from llmcli.inference import GenerateRequest, SamplingOptions


def ask(question: Question) -> None:
    """Ask and show; raises what ended the answer, Ctrl-C included, after everything has been shown."""
    located = find(question.model, question.registry)
    if question.sources.empty:
        raise UsageError(
            "there is no question, and stdin is no terminal to ask one on",
            'Ask one: llmcli chat -p "…", or pipe it in.',
        )
    messages = read_messages(question.sources, lambda text: console.say(f"notice: {text}"))
    asked = time.perf_counter()
    engine = open_engine(located, question.loading)
    if question.loading.decode == "compiled":
        tell_not_compiled(engine, question.model)
    if question.sources.system and not engine.info.system_role:
        console.say(NO_SYSTEM_ROLE)
    entry = located.entry.sampling if located.entry else SamplingOptions()
    sampling = resolve_sampling(question.sampling, entry, engine.info.generation_defaults)
    if notice := greedy_notice(question.sampling, sampling):
        console.say(notice)
    request = GenerateRequest(messages, sampling, question.stop)
    screen = screen_for(plain=question.display.plain, hidden=question.display.json)
    recorder = Recorder(enabled=question.log)
    with cancel_on_interrupt() as cancel:
        waited = time.perf_counter() - asked
        try:
            result = answer(engine, request, screen, cancel, stream=question.display.stream, load_wait=waited)
            cancel.settled = True
        finally:
            screen.end()
        recorder.add(result.record)
    engine.close()
    recorder.close()
    try:
        _finish(question.display, result)
    except OutputFailed:
        if cancel.ends_program:  # the terminal was closed
            cancel.end()
        raise
    if result.record.finish_reason == "interrupted":
        cancel.end()


def _finish(display: Display, result: Answer) -> None:
    """Show record and figures, then raise the error that ended the answer, if one did."""
    record = result.record
    try:
        if display.json:
            console.write_json(record, text=result.text)
    finally:
        show_figures(record, display.stats, explain=display.explain)
    tell_notices(result.notices)
    tell_why_cut(record, more="--max-new-tokens N", room="shorten the prompt")
    if result.error is not None:
        raise result.error
