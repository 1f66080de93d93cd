"""Two consoles: stdout carries the answer or the data and nothing else, stderr everything else."""

import contextlib
import io
import json
import logging
import logging.handlers
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, cast

from llmcli import paths
from llmcli.errors import LlmcliError, OutputClosed, OutputFailed
from llmcli.units import file_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Report = Callable[[int, int], None]
"""Takes what is done and what there is in all."""

_ASCII = str.maketrans({"·": "|", "…": "...", "—": "-", "–": "-", "→": "->", "×": "x", "÷": "/", "≈": "~", "±": "+-"})
_PIPE_WIDTH = 200
_LEAST_VALUE = 30
"""Characters a line that a column of values needs; where there are fewer, values go below their names."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters other than tab and line feed: a terminal would act on them."""


def prepare() -> None:
    """Make both streams safe for any text: what a narrow locale cannot show is escaped, never an exception.

    A stream that was closed before the start takes everything and shows nothing.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - open until the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def plain(stream: IO[str]) -> bool:
    """Whether `stream` must get no escapes: no terminal, or a dumb one."""
    return not stream.isatty() or os.environ.get("TERM") == "dumb"


def fit_encoding(text: str, stream: IO[str]) -> str:
    """`text` with our own typographic characters replaced where `stream` cannot show them."""
    return text if _unicode(stream) else text.translate(_ASCII)


def _unicode(stream: IO[str]) -> bool:
    return (getattr(stream, "encoding", None) or "ascii").lower().startswith("utf")


def columns() -> int:
    """How many characters a line of data may have: the terminal's width, or that of a pipe, which does not wrap."""
    return _width(sys.stdout)


def error_columns() -> int:
    """How many characters a line on stderr may have."""
    return _width(sys.stderr)


def shows_unicode(stream: IO[str]) -> bool:
    """Whether `stream` can show our own typographic characters."""
    return _unicode(stream)


def window(stream: IO[str]) -> tuple[int, int]:
    """Columns and lines of the terminal behind `stream`, 80 and 24 where it does not tell."""
    try:
        columns, lines = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        columns = lines = 0
    return columns or 80, lines or 24


def _width(stream: IO[str]) -> int:
    return shutil.get_terminal_size().columns if stream.isatty() else _PIPE_WIDTH


def without_controls(text: str) -> str:
    """`text` without characters that a terminal would act on: what a model or a file says is only shown."""
    return _CONTROL.sub("", text)


class _Forgiving:
    """stderr for rich: when nobody can read it any more, nothing is written, and nobody has to care."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, if that can be done."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, if that can be done."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


def _console(stream: IO[str]) -> "Console":
    from rich.console import Console

    class Quiet(Console):
        """A console that lets its user decide what a closed pipe means."""

        def on_broken_pipe(self) -> None:
            raise OutputClosed

    escapes = not plain(stream)
    return Quiet(
        file=cast("IO[str]", _Forgiving(stream)) if stream is sys.stderr else stream,
        markup=False,
        highlight=False,
        emoji=False,
        width=None if stream.isatty() else _PIPE_WIDTH,
        no_color=None if escapes else True,
        force_terminal=None if escapes else False,
    )


@contextlib.contextmanager
def _output() -> Iterator[None]:
    """Turn what the system says about stdout into our errors."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise OutputClosed from None
    except OSError as error:
        raise OutputFailed(f"stdout cannot be written: {error.strerror or error}") from error


def show(renderable: "RenderableType") -> None:
    """Print data (a table) on stdout; into a pipe without blanks at line ends. Raises OutputClosed, OutputFailed."""
    console = _console(sys.stdout)
    piped = plain(sys.stdout)
    if piped or not _unicode(sys.stdout):
        with console.capture() as drawn:
            console.print(renderable)
        text = fit_encoding(drawn.get(), sys.stdout)
        write(re.sub(r" +$", "", text, flags=re.MULTILINE) if piped else text)
        return
    with _output():
        console.print(renderable)


def write(text: str) -> None:
    """Write data on stdout as it is, and flush. Raises OutputClosed when nobody reads it any more, OutputFailed."""
    with _output():
        sys.stdout.write(text)


def write_json(document: Any, **more: Any) -> None:
    """Write a result as indented JSON; `more` adds top-level fields. NaN and infinity become null.

    Where stdout cannot show every character, those are escaped as JSON escapes them.
    """
    import msgspec

    fields = {**msgspec.to_builtins(document), **more}
    text = msgspec.json.format(msgspec.json.encode(fields), indent=2).decode()
    write((text if _unicode(sys.stdout) else json.dumps(json.loads(text), indent=2)) + "\n")


def json_line(document: Any) -> str:
    """A document as one line of JSON; where stdout cannot show every character, those are escaped as JSON does."""
    import msgspec

    text = msgspec.json.encode(document).decode()
    return text if _unicode(sys.stdout) else json.dumps(json.loads(text), separators=(",", ":"))


def write_line(text: str) -> None:
    """Write a line of data for people on stdout: wrapped at spaces on a terminal, whole into a pipe."""
    text = fit_encoding(text, sys.stdout)
    if plain(sys.stdout):
        write(text + "\n")
    else:
        show(text)


def say(text: str, *, style: str | None = None) -> None:
    """Print one line of notice or statistics on stderr; a closed stderr is no reason to fail."""
    with contextlib.suppress(OSError, ValueError, OutputClosed):
        text = without_controls(fit_encoding(text, sys.stderr))
        if plain(sys.stderr):
            print(text, file=sys.stderr, flush=True)  # noqa: T201 - the one place that prints
        else:
            _console(sys.stderr).print(text, style=style)


def say_rows(rows: Sequence[tuple[str, str]]) -> None:
    """Print names and values on stderr in two columns; on a narrow terminal a value goes below its name."""
    name = max((len(left) for left, _ in rows), default=0)
    width = error_columns()
    if plain(sys.stderr):
        say("\n".join(f"{left:<{name}}  {right}" for left, right in rows))
        return
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    beside = width - name - 2 >= _LEAST_VALUE
    for left, right in rows:
        value = Text(without_controls(fit_encoding(right, sys.stderr)))
        label = Text(fit_encoding(left, sys.stderr))
        if beside:
            table.add_row(label, value)
        else:
            table.add_row(label)
            table.add_row(Padding(value, (0, 0, 0, 4)))
    _console(sys.stderr).print(table)


def explain_error(error: LlmcliError) -> None:
    """Print an error: what and where, then what to do."""
    say(f"error: {error.message}", style="bold red")
    if error.hint:
        say(f"  {error.hint}")


@contextlib.contextmanager
def progress(label: str, *, unit: str = "", announced: bool = False) -> Iterator[Report]:
    """A progress bar with time left on a terminal's stderr; elsewhere one line, unless a line was `announced` before.

    unit: `bytes`, a word such as `tok`, or empty for steps without figures.
    """
    if plain(sys.stderr):
        if not announced:
            say(f"{label} …")
        yield lambda _done, _total: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=_console(sys.stderr), transient=True, expand=True, refresh_per_second=4) as bar:
        task = bar.add_task(label, total=None, figures="")

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total or None, figures=_figures(done, total, unit))

        yield report


def _figures(done: int, total: int, unit: str) -> str:
    if not unit or not total:
        return ""
    if unit == "bytes":
        return f"{file_text(done)} of {file_text(total)}"
    return f"{done} of {total} {unit}"


def quiet_libraries(*, debug: bool) -> None:
    """Send other libraries' log records and warnings to the debug log, with `debug` to stderr."""
    handler: logging.Handler = logging.StreamHandler()
    if not debug:
        try:
            paths.state_dir().mkdir(mode=0o700, parents=True, exist_ok=True)
            handler = logging.handlers.RotatingFileHandler(
                paths.state_dir() / "debug.log", maxBytes=1_000_000, backupCount=1, encoding="utf-8", delay=True
            )
        except OSError:
            handler = logging.NullHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(name)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.DEBUG if debug else logging.INFO, handlers=[handler], force=True)
    logging.raiseExceptions = debug
    logging.captureWarnings(capture=True)
