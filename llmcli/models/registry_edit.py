"""Change a user's models.toml: entries come and go, comments and layout stay; the file is never half written."""

import contextlib
import os
import shutil
import tomllib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmcli import paths
from llmcli.errors import ConfigError
from llmcli.models.entry import decode_entry
from llmcli.models.place import Place, model_table
from llmcli.models.registry_file import RegistryFile, normal, read_registry_file
from llmcli.models.store import private_directory, writing
from llmcli.models.toml_text import cut_table

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

_BOM = b"\xef\xbb\xbf"


def write_entry(file: Path, name: str, values: Mapping[str, Any], *, default: bool, replace: bool) -> None:
    """Put the table `[models.NAME]` into `file`, which is made when it is missing; default: make it the default model.

    Raises ConfigError for a name or a value that is not allowed, for a name that is there already unless `replace`,
    and for a file that cannot be used; LlmcliError when it cannot be written. Then nothing has changed.
    """
    import tomlkit

    if refusal := RegistryFile(file, None, {}, {}).refuse_name(name):
        raise refusal
    decode_entry(name, dict(values), file)
    with _editing(file) as edit:
        key = _key(edit.document.get("models", {}), name)
        if key is not None and not replace:
            raise Place(file, model_table(key)).refuse("is there already", "--force replaces it.")
        at = edit.cut(key, close_gap=False) if key is not None else None
        if at is not None:
            edit.text = edit.text[:at] + tomlkit.dumps({"models": {name: dict(values)}}) + edit.text[at:]
        else:
            _append(edit, name, values)
        if default:
            document = edit.document
            document["default"] = name
            edit.text = tomlkit.dumps(document)


def _append(edit: "_Edit", name: str, values: Mapping[str, Any]) -> None:
    import tomlkit

    document = edit.document
    models = document.setdefault("models", tomlkit.table(is_super_table=True))
    table = tomlkit.inline_table() if isinstance(models, tomlkit.items.InlineTable) else tomlkit.table()
    table.update(values)
    models[name] = table
    edit.text = tomlkit.dumps(document)


def remove_entry(file: Path, name: str, *, keep_default: bool) -> bool:
    """Take the table of `name` out of `file`, and unless `keep_default` a `default` that names it.

    Returns whether the default went. Raises KeyError when there is no such table, else as `write_entry`.
    """
    import tomlkit

    with _editing(file) as edit:
        key = _key(edit.document.get("models", {}), name)
        if key is None:
            raise KeyError(name)
        edit.cut(key, close_gap=True)
        document = edit.document
        gone = not keep_default and normal(str(document.get("default", ""))) == normal(name)
        if gone:
            del document["default"]
            edit.text = tomlkit.dumps(document)
    return gone


def _key(models: Mapping[str, Any], name: str) -> str | None:
    """The key that names `name`, whatever its case and Unicode form."""
    return next((str(key) for key in models if normal(str(key)).casefold() == normal(name).casefold()), None)


@dataclass(slots=True)
class _Edit:
    """A registry file that is being changed. text: with line feeds only, and without a byte-order mark."""

    text: str

    @property
    def document(self) -> "TOMLDocument":
        """The text, parsed."""
        import tomlkit

        return tomlkit.parse(self.text)

    def cut(self, key: str, *, close_gap: bool) -> int | None:
        """Take the table of a model out; where it began, or None where it has no header of its own."""
        import tomlkit

        if found := cut_table(self.text, ("models", key), close_gap=close_gap):
            self.text, position = found
            return position
        document = self.document
        models = document["models"]
        del models[key]
        if not models:
            del document["models"]
        self.text = tomlkit.dumps(document)
        return None


@contextlib.contextmanager
def _editing(file: Path) -> Iterator[_Edit]:
    """Yield the file's text to change, and write it when the block succeeds."""
    with _lock():
        there = os.path.lexists(file)
        if there:
            read_registry_file(file)  # says what is wrong with it
        content = file.read_bytes() if there else b""
        text = content.removeprefix(_BOM).decode()
        edit = _Edit(text.replace("\r\n", "\n"))
        yield edit
        _refuse_unreadable(file, edit.text)
        changed = edit.text.replace("\n", "\r\n") if "\r\n" in text else edit.text
        _put(file, (_BOM if content.startswith(_BOM) else b"") + changed.encode())


def _refuse_unreadable(file: Path, text: str) -> None:
    """Raise ConfigError for a layout that the change would break."""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{paths.display(file)} cannot be changed as it is laid out", f"Edit it: {error}.") from None


def _put(file: Path, content: bytes) -> None:
    """Write the whole file beside its place, then move it there: with its mode, and through a link."""
    target = file.resolve()
    with writing(target.parent, "Check --registry, LLMCLI_MODELS or LLMCLI_HOME."):
        private_directory(target.parent)
        fresh = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
        try:
            fresh.write_bytes(content)
            if target.exists():
                shutil.copymode(target, fresh)
            fresh.replace(target)
        finally:
            fresh.unlink(missing_ok=True)


@contextlib.contextmanager
def _lock() -> Iterator[None]:
    """Hold off other processes that change a registry."""
    import filelock

    with writing(paths.cache_dir()):
        private_directory(paths.cache_dir())
        lock = filelock.FileLock(paths.cache_dir() / "registry.lock", mode=0o600)
        lock.acquire(poll_interval=0.05)
    try:
        yield
    finally:
        lock.release()
