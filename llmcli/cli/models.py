"""`llmcli models`: the registry and what of it is on this disk."""

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from llmcli import console, paths
from llmcli.errors import ConfigError, LlmcliError, ModelError, ModelNotFound, UsageError
from llmcli.models.locate import Located, locate
from llmcli.models.registry import Registry, load_registry
from llmcli.models.status import Status, loaded_directory, registry_status

models_app = typer.Typer(
    help="The models that llmcli knows by name: models.toml, and what of it is on this disk.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

RegistryFlag = Annotated[
    Path | None,
    typer.Option("--registry", metavar="FILE", help="Your own models.toml, instead of the config directory's."),
]
FormatFlag = Annotated[Literal["table", "json"], typer.Option("--format", help="What to print on stdout.")]
Model = Annotated[
    str | None, typer.Argument(metavar="[MODEL]", help="Alias, directory or .gguf file. [default: the registry's]")
]


@models_app.command("list")
def list_models(*, registry: RegistryFlag = None, format_: FormatFlag = "table") -> None:
    """List the models of the registry, and whether they are on this disk."""
    from llmcli.cli import models_view

    known = load_registry(registry)
    statuses = [registry_status(known, alias) for alias in known.names()]
    if format_ == "json":
        console.write(models_view.list_json(known, statuses))
    else:
        console.show(models_view.ModelList(statuses, _default(known)))
    for status in statuses:
        if status.problem:
            console.say(f"{status.name}: {status.problem}")
    console.say(_user_file(known))


@models_app.command()
def show(
    alias: Annotated[str | None, typer.Argument(metavar="[ALIAS]", help="[default: the registry's]")] = None,
    *,
    registry: RegistryFlag = None,
    format_: FormatFlag = "table",
) -> None:
    """Show everything that is known about one model."""
    from llmcli.cli import models_view

    known = load_registry(registry)
    status = _status(alias, known)
    if format_ == "json":
        console.write(models_view.show_json(known, status))
    else:
        console.show(models_view.show_table(status, default=status.name == _default(known)))


@models_app.command()
def path(
    model: Model = None,
    *,
    source: Annotated[bool, typer.Option("--source", help="The original file instead, e.g. the GGUF.")] = False,
    registry: RegistryFlag = None,
) -> None:
    """Print the directory that is loaded."""
    located = locate(model, load_registry(registry))
    wanted = located.require() if source else _loaded(located)
    console.write(f"{wanted.absolute()}\n")


@models_app.command()
def pull(model: Model = None, *, registry: RegistryFlag = None) -> None:
    """Fetch a model and convert it, so that it loads at once."""
    from llmcli.cli.opening import prepare

    located = locate(model, load_registry(registry))
    if located.kind == "directory":
        console.say(f"{located.name}: {located.require()} is loaded where it is; there is nothing to fetch")
        return
    directory = prepare(located)
    console.say(f"{located.name} is ready: {paths.display(directory)}")


@models_app.command()
def check(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODEL]...", help="Aliases, directories or .gguf files. [default: all]"),
    ] = None,
    *,
    registry: RegistryFlag = None,
) -> None:
    """Check the registry's entries and the models on this disk: sizes, checksums, headers."""
    known = load_registry(registry)
    errors = [_check_default(known)] if not models else []
    errors += [_check_one(name, known) for name in models or known.names()]
    codes = {error.exit_code for error in errors if error}
    if codes:
        raise typer.Exit(max(codes))


def _check_default(registry: Registry) -> LlmcliError | None:
    try:
        registry.default  # noqa: B018 - a property that raises
    except ConfigError as error:
        console.write(f"default: {_words(error)}\n")
        return error
    return None


def _check_one(name: str, registry: Registry) -> LlmcliError | None:
    """Check one model, print its line, and return what is wrong with it."""
    from llmcli.models.verify import verify

    shown = name if name.isprintable() else ascii(name)
    try:
        located = locate(name, registry)
        if located.original and located.entry and located.entry.sha256:
            with console.progress(f"checking {shown}", unit="bytes") as report:
                found = verify(located, report)
        else:
            found = verify(located)
    except (UsageError, ModelError) as error:
        console.write(f"{shown}: {_words(error)}\n")
        return error
    console.write(f"{shown}: ok, {found}\n")
    return None


def _words(error: LlmcliError) -> str:
    return f"{error.message}. {error.hint}" if error.hint else error.message


def _status(alias: str | None, registry: Registry) -> Status:
    if alias is None:
        alias = registry.default
    if alias not in registry:
        located = locate(alias, registry)
        raise UsageError(
            f"{located.source} is a path, not a name of the registry", "`llmcli models check` looks into directories."
        )
    registry.entry(alias)
    return registry_status(registry, alias)


def _loaded(located: Located) -> Path:
    directory = loaded_directory(located)
    if directory is None:
        located.require()
        argument = shlex.quote(located.name if located.entry else located.source)
        raise ModelNotFound(f"{located.name} is not converted yet", f"Convert it: llmcli models pull {argument}")
    return directory


def _default(registry: Registry) -> str | None:
    try:
        return registry.default
    except ConfigError as error:
        console.say(error.message)
        return None


def _user_file(registry: Registry) -> str:
    where = paths.display(registry.user_file)
    if registry.user_file in registry.files:
        return f"your own entries: {where}"
    return f"your own entries would go into {where}"
