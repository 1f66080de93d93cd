"""The registry as tables and as JSON (`llmcli.models/1`, `llmcli.model/1`)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from llmcli import paths
from llmcli.cli.models_compile import compiled_of, record, words
from llmcli.console import without_controls
from llmcli.errors import ConfigError
from llmcli.models.registry import Registry
from llmcli.models.status import Status
from llmcli.units import bytes_text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table

_COLUMNS = ("model", "on disk", "description", "license", "languages")
_ROOM = ((140, 5), (90, 4), (60, 3))
"""From so many characters of width on, so many columns; two below."""
_MOST = (26, 18, 60, 16, 100)
"""The most characters that a column takes where there is room."""


@dataclass(frozen=True, slots=True)
class ModelList:
    """One line per model, those on this disk first, the default marked; a narrow terminal gets the first columns."""

    statuses: Sequence[Status]
    default: str | None

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        """Choose the columns by the width that there is."""
        columns = next((count for width, count in _ROOM if options.max_width >= width), 2)
        there_first = sorted(self.statuses, key=lambda status: status.state == "absent")
        rows = [(_name(status, self.default), *_cells(status))[:columns] for status in there_first]
        yield _list_table(rows, options.max_width)


def _list_table(rows: Sequence[tuple[str, ...]], room: int) -> "Table":
    """Names and states are folded where they are too long, the rest is cut: each model has its line."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for label, width in zip(_COLUMNS, _widths(rows, room), strict=False):
        whole = label in {"model", "on disk"}
        table.add_column(label, width=width, overflow="fold" if whole else "ellipsis", no_wrap=not whole)
    for row in rows:
        table.add_row(*row)
    return table


def _widths(rows: Sequence[tuple[str, ...]], room: int) -> list[int]:
    """What each column needs; where that passes `room`, first the languages give way, then the description."""
    from rich.cells import cell_len

    columns = zip(_COLUMNS, *rows, strict=False)
    widths = [min(most, max(map(cell_len, cells))) for most, cells in zip(_MOST, columns, strict=False)]
    for column, least in ((4, 24), (2, 20)):
        if column < len(widths):
            excess = sum(widths) + 2 * (len(widths) - 1) - room
            widths[column] = max(min(least, widths[column]), widths[column] - max(0, excess))
    return widths


def _name(status: Status, default: str | None) -> str:
    shown = without_controls(status.name)
    return f"{shown} (default)" if status.name == default else shown


def show_table(status: Status, *, default: bool) -> "Table":
    """One fact per row; facts that nobody knows are left out."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in _facts(status, default=default):
        if value:
            table.add_row(label, value)
    return table


def list_json(registry: Registry, statuses: Sequence[Status]) -> dict[str, Any]:
    """Every model of the registry, broken entries included."""
    return {
        "schema": "llmcli.models/1",
        "default": _default(registry),
        "files": [str(file) for file in registry.files],
        "user_file": str(registry.user_file),
        "models": [_record(status) for status in statuses],
    }


def show_json(registry: Registry, status: Status) -> dict[str, Any]:
    """One model of the registry."""
    compiled = [record(package) for package in compiled_of(status)]
    default = status.name == _default(registry)
    return {"schema": "llmcli.model/1", "default": default, **_record(status), "compiled": compiled}


def _cells(status: Status) -> tuple[str, str, str, str]:
    if status.entry is None:
        return (disk_text(status), "cannot be used, see below", "", "")
    entry = status.entry
    return (disk_text(status), entry.description, entry.license or "", ", ".join(entry.languages))


def disk_text(status: Status) -> str:
    """Whether the model loads at once, and the space that it takes: `ready, 0.345 GiB`; `missing`: nothing is there."""
    if status.state == "absent":
        return "no" if status.located and status.located.kind in {"hub", "wheel"} else "missing"
    if status.state == "invalid":
        return "invalid"
    return f"{'ready' if status.loaded else 'yes'}, {bytes_text(status.bytes_on_disk)}"


def _facts(status: Status, *, default: bool) -> list[tuple[str, str]]:
    entry, located = status.entry, status.located
    sampling = asdict(entry.sampling) if entry else {}
    return [
        ("model", f"{status.name} (default)" if default else status.name),
        ("description", entry.description if entry else ""),
        ("problem", status.problem or ""),
        ("source", located.source if located else ""),
        ("revision", (located.revision or "") if located else ""),
        ("size", f"{bytes_text(entry.size)} ({entry.size:,} bytes)" if entry and entry.size else ""),
        ("sha256", (entry.sha256 or "") if entry else ""),
        ("license", (entry.license or "") if entry else ""),
        ("languages", ", ".join(entry.languages) if entry else ""),
        ("context", f"at most {entry.context} tokens" if entry and entry.context else ""),
        ("sampling", ", ".join(f"{key} {value:g}" for key, value in sampling.items() if value is not None)),
        ("on disk", disk_text(status)),
        ("original", str(located.original) if located and located.original else ""),
        ("loaded from", str(status.loaded) if status.loaded else ""),
        ("compiled", "\n".join(map(words, compiled_of(status)))),
        ("defined in", paths.display(entry.origin) if entry else ""),
    ]


def _record(status: Status) -> dict[str, Any]:
    entry, located = status.entry, status.located
    return {
        "name": status.name,
        "description": entry.description if entry else None,
        "source": entry.source if entry else None,
        "kind": located.kind if located else None,
        "revision": located.revision if located else None,
        "size": entry.size if entry else None,
        "sha256": entry.sha256 if entry else None,
        "license": entry.license if entry else None,
        "languages": list(entry.languages) if entry else [],
        "context": entry.context if entry else None,
        "sampling": asdict(entry.sampling) if entry else None,
        "defined_in": str(entry.origin) if entry else None,
        "state": status.state,
        "bytes_on_disk": status.bytes_on_disk,
        "original": str(located.original) if located and located.original else None,
        "loaded_from": str(status.loaded) if status.loaded else None,
        "problem": status.problem,
    }


def _default(registry: Registry) -> str | None:
    try:
        return registry.default
    except ConfigError:
        return None
