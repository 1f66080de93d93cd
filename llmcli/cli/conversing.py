"""`llmcli chat` without a question: the conversation, put together from its parts."""

import os
import sys
import threading
from collections.abc import Callable
from functools import partial

from llmcli import __version__, console, paths
from llmcli.chat.answer import Answer
from llmcli.chat.loading import Loading
from llmcli.chat.prompt import clean
from llmcli.chat.reader import PlainReader, Reader
from llmcli.chat.repl import Face, Repl
from llmcli.chat.screen import screen_for
from llmcli.chat.settings import Settings
from llmcli.cli.compiling import compile_beside
from llmcli.cli.fetching import find
from llmcli.cli.figures import show_figures, table
from llmcli.cli.notes import Notes
from llmcli.cli.opening import announce, load_request
from llmcli.cli.options import Stats
from llmcli.cli.question import Question
from llmcli.cli.recording import Recorder
from llmcli.cli.reporting import tell_notices, tell_why_cut
from llmcli.engine.start import start_engine
from llmcli.errors import LlmcliError, UsageError
from llmcli.inference import Engine, LoadRequest, SamplingOptions
from llmcli.metrics.explain import rows
from llmcli.metrics.record import RequestRecord

HISTORY = "history"


def converse(question: Question) -> None:
    """Talk until the person leaves; raises what ended the conversation, if it was not Ctrl-D or /exit."""
    if question.display.json:
        raise UsageError("--json needs a question", 'Ask one: llmcli chat --json -p "…", or pipe it in.')
    located = find(question.model, question.registry)
    request = load_request(located, question.loading)
    loading = Loading(lambda: start_engine(request))
    announced = Once(request)
    recorder = Recorder(enabled=question.log)
    notes = Notes(partial(console.say, style="dim"))
    reader = _reader(loading, located.name, announced, notes)
    entry = located.entry.sampling if located.entry else SamplingOptions()
    settings = Settings(question.sampling, entry, question.stop, question.display.stats.value)
    system = question.sources.system or ""
    repl = Repl(
        reader,
        loading,
        _face(question, located.name, announced, recorder, notes),
        system=clean(os.fsencode(system), "--system", console.say),
        settings=settings,
        stream=question.display.stream,
    )
    console.say(f"llmcli {__version__} · {located.name} · /help lists commands, Ctrl-D leaves", style="dim")
    try:
        repl.run()
    finally:
        recorder.close()
        loading.close()


class Once:
    """Says what was loaded, the first time that it is called: by the loading thread or before the first answer."""

    def __init__(self, request: LoadRequest) -> None:
        self._request = request
        self._lock = threading.Lock()
        self._said = False

    def __call__(self, engine: Engine) -> None:
        """Say it, unless that has happened."""
        with self._lock:
            if not self._said:
                self._said = True
                announce(engine, self._request)


def _reader(loading: Loading, name: str, announced: Once, notes: Notes) -> Reader:
    """The prompt for this terminal; the model begins to load when it is on the screen."""

    def done() -> None:
        try:
            engine = loading.engine
        except LlmcliError as error:
            if not reader.leave(error) and reader.waiting:
                reader.above(lambda: console.say("the model cannot be loaded; Enter shows why"))
        else:
            if engine is not None:
                reader.above(partial(announced, engine))
                _compile(engine, lambda text: notes.add(text, reader))

    def begin() -> None:
        loading.begin(done)
        notes.offer(reader)

    reader: Reader
    if console.plain(sys.stdout) or console.plain(sys.stderr):
        reader = PlainReader(console.say, begin)
        return reader
    from llmcli.chat.message_history import MessageHistory
    from llmcli.chat.pastes import Pastes
    from llmcli.chat.terminal_reader import TerminalReader

    pastes = Pastes()
    history = MessageHistory(paths.state_dir() / HISTORY, console.say, pastes.expanded)
    reader = TerminalReader(history, pastes, lambda: None if loading.done else f"loading {name} …", begin)
    return reader


def _compile(engine: Engine, say: Callable[[str], None]) -> None:
    """Begin to compile the decode step of a model on this machine, where that is still to be done."""
    from llmcli.engine.local import LocalEngine  # it has torch with it, which is loaded by now

    if isinstance(engine, LocalEngine):
        compile_beside(engine, say)


def _face(question: Question, name: str, announced: Once, recorder: Recorder, notes: Notes) -> Face:
    return Face(
        say=console.say,
        rows=console.say_rows,
        fail=console.explain_error,
        waiting=lambda: console.progress(f"loading {name}"),
        loaded=announced,
        screen=partial(screen_for, plain=question.display.plain, hidden=False),
        finished=partial(_finished, question, recorder, notes),
        figures=_figures,
    )


def _finished(question: Question, recorder: Recorder, notes: Notes, result: Answer, settings: Settings) -> None:
    """Keep the record of an answer, show its figures, and say why it was cut."""
    show_figures(result.record, Stats(settings.stats), explain=question.display.explain)
    tell_notices(result.notices)
    tell_why_cut(result.record, more="/set max_new_tokens N", room="/clear forgets the conversation")
    recorder.add(result.record)
    notes.flush()


def _figures(record: RequestRecord) -> None:
    console.say(table(rows(record), meanings=False))
