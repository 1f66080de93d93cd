"""Cut a table out of TOML text by its lines: the comments around it stay where their writer put them."""

import tomllib
from typing import Any


def cut_table(text: str, path: tuple[str, ...], *, close_gap: bool) -> tuple[str, int] | None:
    """The text without the table `path` and the tables below it, and where it began; None where it has no header.

    Comments and blank lines behind a table's last line belong to what follows. Keys written as `models.NAME.key = …`
    or inside braces have no header. close_gap: one blank line less, where two would meet.
    """
    lines = text.splitlines(keepends=True)
    headers = [(number, found) for number, line in enumerate(lines) if (found := _header(line))]
    if not headers:
        return None
    ends = [number for number, _ in headers[1:]] + [len(lines)]
    gone: set[int] = set()
    for (start, found), end in zip(headers, ends, strict=True):
        if found[: len(path)] == path:
            gone.update(range(start, _last_content(lines, start, end) + 1))
    if not gone:
        return None
    first = min(gone)
    position = sum(len(line) for line in lines[:first])
    after = max(gone) + 1
    if close_gap and after < len(lines) and not lines[after].strip() and (first == 0 or not lines[first - 1].strip()):
        gone.add(after)
    return "".join(line for number, line in enumerate(lines) if number not in gone), position


def _header(line: str) -> tuple[str, ...] | None:
    """The names of `[a.b."c"]`; None for any other line."""
    if not line.lstrip().startswith("["):
        return None
    try:
        table: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return None
    names = []
    while isinstance(table, dict) and table:
        name, table = next(iter(table.items()))
        names.append(name)
    return tuple(names)


def _last_content(lines: list[str], start: int, end: int) -> int:
    return max(
        number for number in range(start, end) if lines[number].strip() and not lines[number].lstrip().startswith("#")
    )
