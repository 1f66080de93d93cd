"""What the `llmcli models` commands do: look up, print, fetch, check; each returns its exit code."""

import shlex
from pathlib import Path

from llmcli import console, paths
from llmcli.cli import models_view
from llmcli.cli.fetching import find, prepare
from llmcli.cli.hub_fetching import fetch_hub
from llmcli.cli.options import TableFormat
from llmcli.errors import ConfigError, LlmcliError, ModelError, ModelNotFound, UsageError
from llmcli.models import hub
from llmcli.models.integrity import check_directory
from llmcli.models.locate import Located, locate
from llmcli.models.registry import Registry, load_registry
from llmcli.models.status import Status, loaded_directory, registry_status


def list_models(registry: Path | None, output: TableFormat) -> None:
    """Print every entry; those that are not valid are named with the reason."""
    known = load_registry(registry)
    statuses = [registry_status(known, alias) for alias in known.names()]
    if output is TableFormat.json:
        console.write_json(models_view.list_json(known, statuses))
    else:
        console.show(models_view.ModelList(statuses, _default(known)))
    for status in statuses:
        if status.problem:
            console.say(f"{status.name}: {status.problem}")
    console.say(_user_file(known))


def show_model(alias: str | None, registry: Path | None, output: TableFormat) -> None:
    """Print all facts of one entry."""
    known = load_registry(registry)
    status = _status(alias, known)
    if output is TableFormat.json:
        console.write_json(models_view.show_json(known, status))
    else:
        console.show(models_view.show_table(status, default=status.name == _default(known)))


def print_path(model: str | None, registry: Path | None, *, source: bool) -> None:
    """Print the directory that is loaded, or the original file."""
    located = find(model, registry)
    wanted = located.require() if source else _loaded(located)
    console.write(f"{wanted.absolute()}\n")


def pull_model(model: str | None, registry: Path | None) -> None:
    """Fetch and convert what is not there yet."""
    located = find(model, registry)
    if located.kind == "directory":
        check_directory(located.require())
        console.say(f"{located.name}: {located.require()} is loaded where it is; there is nothing to fetch")
        return
    directory = _fetch(located)
    console.say(f"{located.name} is ready: {paths.display(directory)}")


def _fetch(located: Located) -> Path:
    """What `prepare` does, but a hub model's branch is looked up again: `pull` is what brings a newer commit."""
    if located.kind != "hub" or (located.hub and located.hub.pinned and located.original):
        return prepare(located)
    if located.original is not None and hub.offline():
        console.say(f"{located.source} is on this disk; HF_HUB_OFFLINE keeps llmcli from looking for a newer commit")
        return located.original
    directory = fetch_hub(located, None)
    if located.original is not None:
        words = "now at" if directory != located.original else "already at its newest"
        console.say(f"{located.source} is {words} commit {directory.name[:12]}")
    return directory


def check_models(models: list[str] | None, registry: Path | None) -> int:
    """Print a line for every model checked; the exit code is that of the worst problem."""
    known = load_registry(registry)
    errors = [_check_default(known)] if not models else []
    errors += [_check_one(name, known) for name in models or known.names()]
    return max((error.exit_code for error in errors if error), default=0)


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
        words = _words(error)
        console.write(f"{words if words.startswith(shown) else f'{shown}: {words}'}\n")
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
        what = "a hub id" if located.kind == "hub" else "a path"
        raise UsageError(
            f"{located.source} is {what}, not a name of the registry",
            "`llmcli models check` looks into what has no name.",
        )
    registry.entry(alias)
    return registry_status(registry, alias)


def _loaded(located: Located) -> Path:
    directory = loaded_directory(located)
    if directory is None:
        located.require()
        argument = shlex.quote(located.argument)
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
