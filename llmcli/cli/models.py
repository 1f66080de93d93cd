"""`llmcli models`: the registry and what of it is on this disk."""

from typing import Annotated, Any

import typer

from llmcli.cli import options as flags
from llmcli.cli.bench_flags import MAX_BATCH
from llmcli.errors import UsageError

# What the commands do is imported when they run: showing --help must not wait for it.

models_app = typer.Typer(
    help="The models that llmcli knows by name: models.toml, and what of it is on this disk.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
AliasArgument = Annotated[str | None, typer.Argument(metavar="ALIAS", help="Default: the registry's default.")]
SourceOption = Annotated[bool, typer.Option("--source", metavar="", help="The original file instead, e.g. the GGUF.")]
ModelsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="MODEL", help="Aliases, directories, .gguf files or hub ids. Default: all aliases."),
]


def _fact(name: str, metavar: str, help_text: str) -> Any:
    return typer.Option(f"--{name}", metavar=metavar, help=help_text)


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


@models_app.command("compile")
def compile_step(
    model: flags.ModelArgument = None,
    *,
    batch: Annotated[int, typer.Option("--batch", metavar="N", help="For batches of N sequences, as bench runs.")] = 1,
    quant: flags.QuantOption = flags.Quant.auto,
    dtype: flags.DtypeOption = "auto",
    registry: flags.RegistryOption = None,
) -> None:
    """Compile a model's decode step ahead, so that a first chat is as fast as later ones.

    The code is made for this CPU, this number of threads and these versions; it needs a C++ compiler.
    """
    from llmcli.cli.models_compile import compile_model

    if not 1 <= batch <= MAX_BATCH:
        raise UsageError(f"--batch {batch} is not allowed", f"Allowed: a whole number from 1 to {MAX_BATCH}.")
    plain = flags.ModelOptions(quant=quant.value, dtype=dtype, weights_only=True, registry=registry, decode="compiled")
    compile_model(model, flags.check_model_options(plain), batch)


@models_app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The alias.")],
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="ORG/NAME[@REVISION] on the hub, a directory, a .gguf file, or wheel:…"),
    ],
    *,
    description: Annotated[str | None, _fact("description", "TEXT", "One line for `models list`.")] = None,
    license_name: Annotated[str | None, _fact("license", "NAME", "SPDX identifier.")] = None,
    languages: Annotated[str | None, _fact("languages", "CODE,…", "What it knows well: en,ko.")] = None,
    context: Annotated[str | None, _fact("context", "N", "Upper bound on prompt and answer, in tokens.")] = None,
    sha256: Annotated[str | None, _fact("sha256", "HEX", "Of the file; a wheel: source needs it.")] = None,
    size: Annotated[int | None, _fact("size", "BYTES", "Of the file.")] = None,
    default: Annotated[bool, typer.Option("--default", metavar="", help="Make it the default model.")] = False,
    force: Annotated[bool, typer.Option("--force", metavar="", help="Replace an entry of this name.")] = False,
    registry: flags.RegistryOption = None,
) -> None:
    """Give a model a name: write an entry into your models.toml."""
    from llmcli.cli import models_editing

    entry = models_editing.NewEntry(name, source, description, license_name, languages, context, sha256, size)
    models_editing.add_model(entry, registry, default=default, force=force)


@models_app.command("rm")
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The alias; with --files also a hub id or a .gguf file.")],
    *,
    files: Annotated[
        bool, typer.Option("--files", metavar="", help="Delete what llmcli fetched or converted for it as well.")
    ] = False,
    registry: flags.RegistryOption = None,
) -> None:
    """Remove an entry from your models.toml; your own directories and GGUF files stay."""
    from llmcli.cli import models_editing

    models_editing.remove_model(name, registry, files=files)


@models_app.command()
def check(models: ModelsArgument = None, *, registry: flags.RegistryOption = None) -> int:
    """Check the registry's entries and the models on this disk: sizes, checksums, headers."""
    from llmcli.cli import models_actions

    return models_actions.check_models(models, registry)
