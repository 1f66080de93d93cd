"""The conversation loop: read a message, answer it, show where the time went, again."""

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from llmcli.chat import commands
from llmcli.chat.answer import Answer, Screen, answer
from llmcli.chat.conversation import NO_REUSE, NO_SYSTEM_ROLE, Conversation
from llmcli.chat.interrupt import ENDING, Cancellation, Handler, cancel_on_interrupt, handling
from llmcli.chat.loading import Loading
from llmcli.chat.overview import overview, session_line
from llmcli.chat.reader import Reader
from llmcli.chat.sampling import greedy_notice
from llmcli.chat.settings import Settings
from llmcli.errors import LlmcliError, OutputFailed, Terminated, UsageError
from llmcli.inference import Engine, GenerateRequest, SamplingOptions
from llmcli.metrics.record import RequestRecord


class AnswerScreen(Screen, Protocol):
    """A screen that an answer ends on a line of its own."""

    def end(self) -> None:
        """Finish the last line."""
        ...


@dataclass(frozen=True, slots=True)
class Face:
    """What a person sees, and what is kept of an answer.

    say: one notice. rows: names and values. fail: an error. waiting: shown while the model loads. loaded: the model
    is there; called before every answer. screen: where the next answer goes. finished: an answer has ended; its
    figures are shown and its record is kept. figures: all figures of a record.
    """

    say: Callable[[str], None]
    rows: Callable[[Sequence[tuple[str, str]]], None]
    fail: Callable[[LlmcliError], None]
    waiting: Callable[[], AbstractContextManager[object]]
    loaded: Callable[[Engine], None]
    screen: Callable[[], AnswerScreen]
    finished: Callable[[Answer, Settings], None]
    figures: Callable[[RequestRecord], None]


class Repl:
    """A conversation with one engine.

    Whatever ends an answer – Ctrl-C, no memory, a fault in the engine – the conversation lives on. It ends with
    Ctrl-D, `/exit`, Ctrl-C twice, SIGTERM, a closed terminal, or a model that cannot be loaded.
    """

    def __init__(
        self, reader: Reader, loading: Loading, face: Face, *, system: str, settings: Settings, stream: bool = True
    ) -> None:
        self.conversation = Conversation(system)
        self.settings = settings
        self.records: list[RequestRecord] = []
        self._reader = reader
        self._loading = loading
        self._face = face
        self._stream = stream
        self._told = self._told_of_reuse = False

    @property
    def engine(self) -> Engine | None:
        """The engine, None while it loads."""
        return self._loading.engine

    def run(self) -> None:
        """Talk until the person leaves. Raises Interrupted, Terminated, OutputFailed, or what loading raised."""
        handlers: dict[int, Handler] = {signal.SIGINT: self._on_interrupt, **dict.fromkeys(ENDING, self._on_end)}
        with handling(handlers), self._reader.talking():
            while True:
                self._loading.check()
                try:
                    line = self._reader.read()
                except EOFError:
                    return
                if line.strip() and not self._take(commands.parse(line)):
                    return

    def _on_interrupt(self, _number: int, _frame: object) -> None:
        """Ctrl-C where no answer runs: a plain prompt starts a new line; between two prompts nothing is to be ended."""
        if self._reader.waiting:
            raise KeyboardInterrupt

    def _on_end(self, _number: int, _frame: object) -> None:
        error = Terminated()
        if not self._reader.leave(error):
            raise error

    def _take(self, line: commands.Line) -> bool:
        """Do what a line asks for; False to leave."""
        if isinstance(line, commands.Text):
            self._ask(line.content)
        elif isinstance(line, commands.Unknown):
            near = f" Did you mean {line.near}?" if line.near else ""
            self._face.say(f"there is no command {line.word}.{near} /help lists them; /{line.word} sends it as text")
        elif isinstance(line, commands.Surplus):
            self._face.say(f"{line.word} stands alone; to send the text, begin it with /{line.word}")
        elif line.name == "/exit":
            return False
        else:
            self._command(line)
        return True

    def _command(self, command: commands.Command) -> None:
        actions: dict[str, Callable[[str], None]] = {
            "/help": lambda _: self._face.rows(commands.help_rows()),
            "/clear": lambda _: self._clear(),
            "/system": self._system,
            "/set": self._set,
            "/show": lambda _: self._show(),
            "/stats": self._stats,
        }
        try:
            actions[command.name](command.argument)
        except OutputFailed:
            raise
        except LlmcliError as error:
            self._face.fail(error)

    def _clear(self) -> None:
        stays = "; the system text stays" if self.conversation.system else ""
        self._face.say(f"forgotten: {self.conversation.length}{stays}")
        self.conversation = self.conversation.cleared()

    def _system(self, text: str) -> None:
        if not text:
            self._face.say(self.conversation.system or "there is no system text; /system TEXT sets one")
            return
        self.conversation = self.conversation.with_system("" if text.lower() == "off" else text)
        again = "; the next answer evaluates the conversation anew" if self.conversation.turns else ""
        self._face.say(f"system text {'set' if self.conversation.system else 'removed'}{again}")
        self._told = False

    def _set(self, argument: str) -> None:
        if not argument:
            self._show()
            return
        name, _, value = argument.partition(" ")
        self.settings = self.settings.changed(name, value.strip())
        defaults = self.engine.info.generation_defaults if self.engine is not None else SamplingOptions()
        self._face.say(self.settings.shown(name, defaults))
        if notice := greedy_notice(self.settings.chosen, self.settings.sampling(defaults)):
            self._face.say(notice)

    def _show(self) -> None:
        info = self.engine.info if self.engine is not None else None
        self._face.rows(overview(info, self.conversation, self.settings, self.records))

    def _stats(self, argument: str) -> None:
        if argument:
            self._set(f"stats {argument}")
            return
        if self.records:
            self._face.figures(self.records[-1])
        self._face.say(session_line(self.records))

    def _ask(self, question: str) -> None:
        with cancel_on_interrupt() as cancel, self._reader.answering():
            try:
                result = self._answer(question, cancel)
            except LlmcliError as error:
                self._loading.check()
                self._face.fail(error)
                if isinstance(error, UsageError) and self._may_fit(question):
                    self._face.say("/clear forgets the earlier turns, which are part of every prompt")
                result = None
            if result is not None:
                self._keep(question, result)
        if cancel.ends_program:
            cancel.end()
        if result is not None and isinstance(result.error, OutputFailed):
            raise result.error

    def _may_fit(self, question: str) -> bool:
        """Whether the question would fit without the turns before it; a token nearly always has a character."""
        engine = self.engine
        return engine is not None and bool(self.conversation.turns) and len(question) < engine.info.context_limit

    def _answer(self, question: str, cancel: Cancellation) -> Answer | None:
        """Answer, or None when the person does not want to wait for the model."""
        asked = time.perf_counter()
        engine = self._engine(cancel)
        if engine is None:
            self._face.say("interrupted while the model loads; the message was not sent")
            return None
        sampling = self.settings.sampling(engine.info.generation_defaults)
        messages = self.conversation.asking(question)
        request = GenerateRequest(messages, sampling, self.settings.stop, reuse_cache=engine.info.cache_reuse)
        self._tell(engine)
        screen = self._face.screen()
        waited = time.perf_counter() - asked
        try:
            result = answer(engine, request, screen, cancel, stream=self._stream, load_wait=waited)
            cancel.settled = True
        finally:
            screen.end()
        return result

    def _engine(self, cancel: Cancellation) -> Engine | None:
        if self._loading.done:
            return self._loading.engine
        with self._face.waiting():
            return self._loading.wait(cancel)

    def _tell(self, engine: Engine) -> None:
        """What is worth saying once about this model and this system text."""
        self._face.loaded(engine)
        if self.conversation.system and not engine.info.system_role and not self._told:
            self._told = True
            self._face.say(NO_SYSTEM_ROLE)
        if self.conversation.turns and not engine.info.cache_reuse and not self._told_of_reuse:
            self._told_of_reuse = True
            self._face.say(NO_REUSE)

    def _keep(self, question: str, result: Answer) -> None:
        self.records.append(result.record)
        self._face.finished(result, self.settings)
        if result.text or result.record.finish_reason in {"eos", "stop", "length", "context"}:
            self.conversation = self.conversation.answered(question, result.text)
        else:
            self._face.say("nothing was answered, so the message is not part of the conversation")
        if result.error is not None and not isinstance(result.error, OutputFailed):
            self._face.fail(result.error)
