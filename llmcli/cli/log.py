"""`llmcli log`: what was asked of which model, and where the time went."""

from enum import StrEnum
from typing import Annotated

import typer

from llmcli.cli import options as flags

# What the commands do is imported when they run: showing --help must not wait for it.

log_app = typer.Typer(
    help="The log of all requests: where their time went. It holds no text of prompts or answers.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Command(StrEnum):
    """The commands whose requests are logged."""

    chat = "chat"
    bench = "bench"


class ExportFormat(StrEnum):
    """What an export is made of."""

    jsonl = "jsonl"
    csv = "csv"


IdArgument = Annotated[str, typer.Argument(metavar="ID", help="A request's id, or at least its first 4 characters.")]
LimitOption = Annotated[int, typer.Option("--limit", "-n", metavar="N", help="The newest N requests.")]
SinceOption = Annotated[
    str | None,
    typer.Option("--since", metavar="WHEN", help="Requests of the last 30m, 2h or 7d, or since a date or time."),
]
ModelOption = Annotated[str | None, typer.Option("--model", metavar="NAME", help="Requests of this model only.")]
CommandOption = Annotated[Command | None, typer.Option("--command", help="Requests of this command only.")]
ExportOption = Annotated[ExportFormat, typer.Option("--format", help="One JSON object or one CSV row per request.")]


@log_app.command()
def last(*, command: CommandOption = None, output: flags.FormatOption = flags.TableFormat.table) -> None:
    """Show the figures of the newest request."""
    from llmcli.cli import log_actions

    log_actions.show_last(command, output)


@log_app.command("list")
def list_requests(
    *,
    limit: LimitOption = 20,
    since: SinceOption = None,
    model: ModelOption = None,
    command: CommandOption = None,
    output: flags.FormatOption = flags.TableFormat.table,
) -> None:
    """List requests, the newest last."""
    from llmcli.cli import log_actions

    log_actions.list_requests(log_actions.selection(since, model, command), limit, output)


@log_app.command()
def show(request: IdArgument, *, output: flags.FormatOption = flags.TableFormat.table) -> None:
    """Show the figures of one request."""
    from llmcli.cli import log_actions

    log_actions.show_request(request, output)


@log_app.command()
def stats(
    *,
    since: SinceOption = None,
    model: ModelOption = None,
    command: CommandOption = None,
    output: flags.FormatOption = flags.TableFormat.table,
) -> None:
    """Say which phase takes the time: sums, shares and rates per model and prompt size."""
    from llmcli.cli import log_actions

    log_actions.show_stats(log_actions.selection(since, model, command), output)


@log_app.command()
def export(
    *,
    since: SinceOption = None,
    model: ModelOption = None,
    command: CommandOption = None,
    output: ExportOption = ExportFormat.jsonl,
) -> None:
    """Print every request, the oldest first."""
    from llmcli.cli import log_actions, log_export

    chosen = log_actions.selection(since, model, command)
    log_export.export(chosen, as_csv=output is ExportFormat.csv)
