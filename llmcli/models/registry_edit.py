"""Change a user's models.toml: entries come and go, comments and layout stay; the file is never half written."""

import contextlib
import json
import os
import shutil
import tomllib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmcli import paths
from llmcli.errors import ConfigError
from llmcli.models.entry import decode_entry
from llmcli.models.place import Place, model_table
from llmcli.models.registry_file import RegistryFile, normal, read_registry_file
from llmcli.models.store import private_directory, writing
from llmcli.models.toml_text import cut_table

_BOM = b"\xef\xbb\xbf"


def write_entry(file: Path, name: str, values: Mapping[str, Any], *, default: bool, replace: bool) -> None:
    """Put the table `[models.NAME]` into `file`, which is made when it is missing; default: make it the default model.

    Raises ConfigError for a name or a value that is not allowed, for a name that is there already unless `replace`,
    and for a file that cannot be used; LlmcliError when it cannot be written. Then nothing has changed.
    """
    if refusal := RegistryFile(file, None, {}, {}).refuse_name(name):
        raise refusal
    decode_entry(name, dict(values), file)
    with _editing(file) as edit:
        key = edit.key(name)
        if key is not None and not replace:
            raise Place(file, model_table(key)).refuse("is there already", "--force replaces it.")
        edit.write(key, name, values)
        if default:
            edit.set_default(name)


def remove_entry(file: Path, name: str, *, keep_default: bool) -> bool:
    """Take the table of `name` out of `file`, and unless `keep_default` a `default` that names it.

    Returns whether the default went. Raises KeyError when there is no such table, else as `write_entry`.
    """
    with _editing(file) as edit:
        key = edit.key(name)
        if key is None:
            raise KeyError(name)
        edit.remove(key)
        gone = not keep_default and normal(edit.wanted.get("default", "")) == normal(name)
        if gone:
            edit.set_default(None)
    return gone


@dataclass(slots=True)
class _Edit:
    """A registry file that is being changed. text: with line feeds only, and without a byte-order mark.

    wanted: what the text is to say once it is changed. Every change is made to both; `_editing` compares them.
    """

    file: Path
    text: str
    wanted: dict[str, Any]

    def key(self, name: str) -> str | None:
        """The key that names `name`, whatever its case and Unicode form."""
        folded = normal(name).casefold()
        return next((key for key in self.wanted.get("models", {}) if normal(key).casefold() == folded), None)

    def write(self, key: str | None, name: str, values: Mapping[str, Any]) -> None:
        """Put the table of `name` where that of `key` is, else behind everything."""
        import tomlkit

        models = self.wanted.setdefault("models", {})
        models.pop(key, None)
        models[name] = dict(values)
        with self._readable():
            at = self._cut(key, close_gap=False) if key is not None else None
            document = tomlkit.parse(self.text)
            if isinstance(inside := document.get("models"), tomlkit.items.InlineTable):
                inside[name] = tomlkit.inline_table()
                inside[name].update(values)
                self.text = tomlkit.dumps(document)
                return
            table = tomlkit.dumps({"models": {name: dict(values)}})
            if at is None:  # the end of the file: a table that began earlier would take in the lines behind it
                self.text += ("\n" if self.text and not self.text.endswith("\n") else "") + ("\n" if self.text else "")
                at = len(self.text)
            self.text = self.text[:at] + table + self.text[at:]

    def remove(self, key: str) -> None:
        """Take the table of `key` out."""
        del self.wanted["models"][key]
        with self._readable():
            self._cut(key, close_gap=True)

    def set_default(self, name: str | None) -> None:
        """Make `name` the default; None: leave the file without one."""
        import tomlkit

        with self._readable():
            document = tomlkit.parse(self.text)
            if name is None:
                del self.wanted["default"], document["default"]
            else:
                self.wanted["default"] = document["default"] = name
            self.text = tomlkit.dumps(document)

    def require_wanted(self) -> None:
        """Raise ConfigError unless the text says what it is to say, and nothing else."""
        try:
            found = tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            raise self._refusal(str(error)) from None
        if _canonical(found) != _canonical(self.wanted):
            raise self._refusal("other lines would change with it")

    def _cut(self, key: str, *, close_gap: bool) -> int | None:
        """Take the table of a model out; where it began, or None where it has no header of its own."""
        import tomlkit

        if found := cut_table(self.text, ("models", key), close_gap=close_gap):
            self.text, position = found
            return position
        document = tomlkit.parse(self.text)
        models = document["models"]
        del models[key]
        if not models:
            del document["models"]
        self.text = tomlkit.dumps(document)
        return None

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        """Turn what tomlkit says of a text that it cannot read or change into ConfigError."""
        from tomlkit.exceptions import TOMLKitError

        try:
            yield
        except (TOMLKitError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise self._refusal(str(error).partition("\n")[0] or type(error).__name__) from error

    def _refusal(self, reason: str) -> ConfigError:
        return ConfigError(f"{paths.display(self.file)} cannot be changed as it is laid out", f"Edit it: {reason}.")


def _canonical(document: Mapping[str, Any]) -> str:
    """A text that two documents share only when they say the same: types count, order and an empty `models` do not."""
    said = {key: value for key, value in document.items() if key != "models" or value}
    return json.dumps(said, sort_keys=True, default=repr)


@contextlib.contextmanager
def _editing(file: Path) -> Iterator[_Edit]:
    """Yield the file's text to change; write it when the block succeeds and it says what it is to say."""
    with _lock():
        there = os.path.lexists(file)
        if there:
            read_registry_file(file)  # says what is wrong with it
        content = file.read_bytes() if there else b""
        text = content.removeprefix(_BOM).decode()
        edit = _Edit(file, text.replace("\r\n", "\n"), tomllib.loads(text))
        yield edit
        edit.require_wanted()
        changed = edit.text.replace("\n", "\r\n") if "\r\n" in text else edit.text
        _put(file, (_BOM if content.startswith(_BOM) else b"") + changed.encode())


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
