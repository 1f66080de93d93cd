"""The prompt on a terminal: history, multi-line editing, bracketed paste, completion of commands."""

import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from llmcli import console
from llmcli.chat.commands import COMMANDS
from llmcli.chat.interrupt import PATIENCE
from llmcli.chat.pastes import Pastes
from llmcli.chat.reader import LEAVING, quoted_open, readable, unquoted
from llmcli.chat.typing_ahead import unechoed
from llmcli.errors import Interrupted, LlmcliError, Terminated

if TYPE_CHECKING:
    from prompt_toolkit.output import Output

MARK = "> "
_GONE = {errno.EIO, errno.ENXIO, errno.EBADF}
"""What the system says of a terminal that has been closed."""


class TerminalReader:
    """Reads messages with prompt-toolkit.

    status: what stands below the line, None for nothing. begin: called once the first prompt is on the screen.
    """

    waiting = False

    def __init__(
        self, history: History, pastes: Pastes, status: Callable[[], str | None], begin: Callable[[], None]
    ) -> None:
        self._pastes = pastes
        self._hinted = False
        self._reading = False
        self._answered_at = -PATIENCE
        self._error: LlmcliError | None = None
        self._session: PromptSession[str] = PromptSession(
            MARK,
            multiline=True,
            prompt_continuation=lambda width, _line, _wraps: " " * width,
            history=history,
            key_bindings=self._keys(),
            completer=WordCompleter(list(COMMANDS), sentence=True),
            complete_while_typing=Condition(lambda: self._session.default_buffer.text.startswith("/")),
            reserve_space_for_menu=0,
            bottom_toolbar=status,
            enable_open_in_editor=True,
            enable_suspend=True,
            output=_output(),
        )
        self._session.app.after_render += lambda _: begin()

    def read(self) -> str:
        """The next message; an empty line asks again."""
        self._reading = True
        try:
            line = self._line()
        finally:
            self._reading = False
        if self._error is not None:
            raise self._error
        # The prompt has just turned it off, but what is pasted into an answer is one message as well.
        self._session.output.enable_bracketed_paste()
        self._session.output.flush()
        self._hinted = False
        return unquoted(readable(self._pastes.expanded(line)))

    @contextmanager
    def talking(self) -> Iterator[None]:
        """No echo but the prompt's own, from the first prompt to the last: no key falls between two of them."""
        with unechoed(keys=True):
            try:
                yield
            finally:
                with suppress(OSError):  # the terminal may be gone
                    self._session.output.disable_bracketed_paste()
                    self._session.output.flush()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Note when it ends: Ctrl-C right after that was meant for the answer."""
        try:
            yield
        finally:
            self._answered_at = time.monotonic()

    def leave(self, error: LlmcliError) -> bool:
        """End a `read` that has begun with `error`, from any thread or a signal handler; False when none has."""
        self._error = error
        loop = self._session.app.loop
        if loop is not None:
            with suppress(RuntimeError):  # it has just been closed
                loop.call_soon_threadsafe(self._end)
        return self._reading

    def _line(self) -> str:
        while True:
            try:
                # Without its handler an exception in a redraw is logged; with it a key would be waited for.
                return self._session.prompt(pre_run=self._end, set_exception_handler=False)
            except KeyboardInterrupt:
                continue
            except OSError as error:
                if error.errno in _GONE:
                    raise Terminated from None
                raise

    def _end(self) -> None:
        """End the prompt when there is an error to end with."""
        app = self._session.app
        if self._error is not None and app.is_running and not app.is_done:
            app.exit(exception=self._error)

    def above(self, show: Callable[[], None]) -> None:
        """Call `show` with the prompt taken away for a moment, if there is one."""
        app = self._session.app
        if app.loop is None or not app.is_running:
            return

        with suppress(RuntimeError):  # it has just been closed
            app.loop.call_soon_threadsafe(self._print_above, show)

    def _print_above(self, show: Callable[[], None]) -> None:
        """Take the prompt away, print, and draw it again below.

        prompt-toolkit's run_in_terminal would also give the terminal back its own line editing for the moment, which
        takes a paste that is coming in apart and holds no more than 4,096 characters of it.
        """
        app = self._session.app
        if app.is_running and not app.is_done:
            app.renderer.erase()
            show()
            app.invalidate()

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter", filter=Condition(lambda: not quoted_open(self._session.default_buffer.text)))
        def _send(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter")
        def _newline(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add(Keys.BracketedPaste)
        def _paste(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text(self._pastes.shown(event.data))

        @keys.add("c-c")
        @keys.add("<sigint>")
        def _clear(event: KeyPressEvent) -> None:
            self._interrupt(event)

        return keys

    def _interrupt(self, event: KeyPressEvent) -> None:
        """Clear the line; an empty one asks whether to leave, and leaves the second time."""
        buffer = event.current_buffer
        if buffer.text:
            self._hinted = False
            buffer.reset()
        elif time.monotonic() - self._answered_at < PATIENCE:
            return
        elif self._hinted:
            event.app.exit(exception=Interrupted())
        else:
            self._hinted = True
            self._print_above(lambda: console.say(LEAVING))


def _output() -> "Output | None":
    """Output that asks the terminal no questions: its answers would be taken for typing while weights load."""
    if sys.platform == "win32":
        return None
    from prompt_toolkit.output.color_depth import ColorDepth
    from prompt_toolkit.output.vt100 import Vt100_Output

    output = Vt100_Output.from_pty(sys.stdout, term=os.environ.get("TERM"), default_color_depth=ColorDepth.from_env())
    output.enable_cpr = False
    return output
