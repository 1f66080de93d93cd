"""`llmcli models`: the registry and what of it is on this disk."""

from typing import Annotated

import typer

from llmcli.cli import options as flags

# What the commands do is imported when they run: showing --help must not wait for it.

models_app = typer.Typer(
    help="The models that llmcli knows by name: models.toml, and what of it is on this disk.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
AliasArgument = Annotated[str | None, typer.Argument(metavar="ALIAS", help="Default: the registry's default.")]
SourceOption = Annotated[bool, typer.Option("--source", metavar="", help="The original file instead, e.g. the GGUF.")]
ModelsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="MODEL", help="Aliases, directories or .gguf files. Default: all.")
]


@models_app.command("list")
def list_models(*, registry: flags.RegistryOption = None, output: flags.FormatOption = flags.TableFormat.table) -> None:
    """List the models of the registry, and whether they are on this disk."""
    from llmcli.cli import models_actions

    models_actions.list_models(registry, output)


@models_app.command()
def show(
    alias: AliasArgument = None,
    *,
    registry: flags.RegistryOption = None,
    output: flags.FormatOption = flags.TableFormat.table,
) -> None:
    """Show everything that is known about one model."""
    from llmcli.cli import models_actions

    models_actions.show_model(alias, registry, output)


@models_app.command()
def path(
    model: flags.ModelArgument = None, *, source: SourceOption = False, registry: flags.RegistryOption = None
) -> None:
    """Print the directory that is loaded."""
    from llmcli.cli import models_actions

    models_actions.print_path(model, registry, source=source)


@models_app.command()
def pull(model: flags.ModelArgument = None, *, registry: flags.RegistryOption = None) -> None:
    """Fetch a model and convert it, so that it loads at once."""
    from llmcli.cli import models_actions

    models_actions.pull_model(model, registry)


@models_app.command()
def check(models: ModelsArgument = None, *, registry: flags.RegistryOption = None) -> int:
    """Check the registry's entries and the models on this disk: sizes, checksums, headers."""
    from llmcli.cli import models_actions

    return models_actions.check_models(models, registry)
