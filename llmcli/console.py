"""Two consoles: stdout carries the answer or the data and nothing else, stderr everything else."""

import contextlib
import io
import logging
import logging.handlers
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING

from llmcli import paths
from llmcli.errors import LlmcliError, OutputClosed
from llmcli.units import bytes_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Report = Callable[[int, int], None]
"""Takes what is done and what there is in all."""

_ASCII = str.maketrans({"·": "|", "…": ".", "—": "-", "–": "-", "→": ">", "×": "x", "≈": "~", "±": "+"})
_PIPE_WIDTH = 200


def prepare() -> None:
    """Make both streams safe for any text: what a narrow locale cannot show is replaced, never an exception."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def plain(stream: IO[str]) -> bool:
    """Whether `stream` must get no escapes: no terminal, or a dumb one."""
    return not stream.isatty() or os.environ.get("TERM") == "dumb"


def fit_encoding(text: str, stream: IO[str]) -> str:
    """`text` with our own typographic characters replaced where `stream` cannot show them."""
    encoding = (getattr(stream, "encoding", None) or "ascii").lower()
    return text if encoding.startswith("utf") else text.translate(_ASCII)


def columns() -> int:
    """How many characters a line of data may have: the terminal's width, or that of a pipe, which does not wrap."""
    return _width(sys.stdout)


def error_columns() -> int:
    """How many characters a line on stderr may have."""
    return _width(sys.stderr)


def _width(stream: IO[str]) -> int:
    return shutil.get_terminal_size().columns if stream.isatty() else _PIPE_WIDTH


def _console(stream: IO[str]) -> "Console":
    from rich.console import Console

    width = _PIPE_WIDTH if not stream.isatty() else None
    return Console(
        file=stream,
        markup=False,
        highlight=False,
        emoji=False,
        width=width,
        no_color=None if not plain(stream) else True,
        force_terminal=None if not plain(stream) else False,
    )


def show(renderable: "RenderableType") -> None:
    """Print data (a table) on stdout."""
    try:
        _console(sys.stdout).print(renderable)
        sys.stdout.flush()
    except BrokenPipeError:
        raise OutputClosed from None


def write(text: str) -> None:
    """Write data on stdout as it is, and flush. Raises OutputClosed when nobody reads it any more."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise OutputClosed from None


def write_line(text: str) -> None:
    """Write a line of data for people on stdout: wrapped at spaces on a terminal, whole into a pipe."""
    text = fit_encoding(text, sys.stdout)
    if plain(sys.stdout):
        write(text + "\n")
    else:
        show(text)


def say(text: str, *, style: str | None = None) -> None:
    """Print one line of notice or statistics on stderr; a closed stderr is no reason to fail."""
    with contextlib.suppress(OSError, ValueError):
        text = fit_encoding(text, sys.stderr)
        if plain(sys.stderr):
            print(text, file=sys.stderr, flush=True)  # noqa: T201 - the one place that prints
        else:
            _console(sys.stderr).print(text, style=style)


def explain_error(error: LlmcliError) -> None:
    """Print an error: what and where, then what to do."""
    say(f"error: {error.message}", style="bold red")
    if error.hint:
        say(f"  {error.hint}")


@contextlib.contextmanager
def progress(label: str, *, unit: str = "") -> Iterator[Report]:
    """A progress bar with time left on a terminal's stderr; one line of notice where there is no terminal.

    unit: `bytes`, a word such as `tok`, or empty for steps without figures.
    """
    if plain(sys.stderr):
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
        return f"{bytes_text(done)} of {bytes_text(total)}"
    return f"{done} of {total} {unit}"


def quiet_libraries(*, debug: bool) -> None:
    """Send other libraries' log records and warnings to the debug log, with `debug` to stderr."""
    handler: logging.Handler = logging.StreamHandler()
    if not debug:
        try:
            paths.state_dir().mkdir(parents=True, exist_ok=True)
            handler = logging.handlers.RotatingFileHandler(
                paths.state_dir() / "debug.log", maxBytes=1_000_000, backupCount=1, encoding="utf-8", delay=True
            )
        except OSError:
            handler = logging.NullHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(name)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.DEBUG if debug else logging.INFO, handlers=[handler], force=True)
    logging.raiseExceptions = debug
    logging.captureWarnings(capture=True)
