"""The program: its commands, and the one place where a failure becomes text and an exit code."""

import contextlib
import errno
import logging
import os
import signal
import sys
import traceback
from types import FrameType
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from llmcli import __version__, console, ranks
from llmcli.chat.interrupt import ENDING
from llmcli.cli.bench import bench
from llmcli.cli.chat import chat
from llmcli.cli.estimate import EstimateCommand, estimate_kv
from llmcli.cli.log import log_app
from llmcli.cli.models import models_app
from llmcli.errors import Interrupted, LlmcliError, OutputClosed, OutputFailed, Terminated

app = typer.Typer(
    name="llmcli",
    help="Talk to a language model on your own machine and see where the time goes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        console.write(f"llmcli {__version__}\n")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[  # noqa: ARG001 - read by its callback
        bool, typer.Option("--version", metavar="", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", metavar="", envvar="LLMCLI_DEBUG", help="Show tracebacks and libraries' messages."),
    ] = False,
) -> None:
    """Talk to a language model on your own machine and see where the time goes."""
    if debug:
        os.environ["LLMCLI_DEBUG"] = "1"
    console.quiet_libraries(debug=debug)


app.command("chat")(chat)
app.command("bench")(bench)
app.command("estimate-kv", cls=EstimateCommand)(estimate_kv)
app.add_typer(models_app, name="models")
app.add_typer(log_app, name="log")


def main() -> NoReturn:
    """Run the program and exit with one of the codes of `llmcli.errors`."""
    ranks.hush()
    console.prepare()
    _end_on_signals()
    code = run(sys.argv[1:])
    ranks.linger(code)
    try:
        sys.stdout.flush()
    except OSError as error:
        closed = isinstance(error, BrokenPipeError)
        code = code or (OutputClosed.exit_code if closed else OutputFailed.exit_code)
        # The interpreter would flush the closed stdout once more and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if "torch" in sys.modules:
        # Unloading torch takes a second, and the inference thread may be inside a kernel that nothing can interrupt.
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        logging.shutdown()
        os._exit(code)
    sys.exit(code)


def _end_on_signals() -> None:
    """Let SIGTERM, and SIGHUP unless `nohup` has it ignored, end the program in order."""
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            with contextlib.suppress(ValueError):  # not in the main thread
                signal.signal(number, _terminate)


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code: the error boundary."""
    try:
        result = app(arguments, standalone_mode=False)
    except LlmcliError as error:
        _trace()
        if isinstance(error, Terminated):
            console.say(error.message)
        elif not isinstance(error, (Interrupted, OutputClosed)):
            console.explain_error(error)
        return error.exit_code
    except TyperException as error:
        return _wrong_usage(error)
    except SystemExit:  # rich's answer to a closed pipe while typer shows --help
        return OutputClosed.exit_code
    except Exception as error:  # noqa: BLE001 - the boundary; a fault of ours still ends in words
        return _fault(error)
    if result == Interrupted.exit_code:  # typer has turned a KeyboardInterrupt into this
        console.say("interrupted")
    return result if isinstance(result, int) else 0


_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF}
"""What the system says when typer writes --help to a stdout that cannot take it."""


def _fault(error: Exception) -> int:
    _trace()
    if isinstance(error, OSError) and error.errno in _WRITING:
        console.explain_error(OutputFailed(f"stdout cannot be written: {error.strerror}"))
        return OutputFailed.exit_code
    hint = "This is a fault of llmcli. `llmcli --debug …` shows the traceback."
    console.explain_error(LlmcliError(f"{type(error).__name__}: {error}", hint))
    return LlmcliError.exit_code


def _wrong_usage(error: TyperException) -> int:
    code: int = getattr(error, "exit_code", 2)
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "llmcli"
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    message = message.replace("Value error, ", "")  # what typer's validator says before the reason
    if not message.strip() or message.strip() == path:  # no command given: help has been printed
        return code
    console.explain_error(LlmcliError(f"{path}: {message}", f"`{path} --help` lists what is allowed."))
    return code


def _trace() -> None:
    if os.environ.get("LLMCLI_DEBUG"):
        traceback.print_exc()
