"""The log for other programs: JSON Lines or CSV on stdout, a batch of rows at a time."""

import csv
import io
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from llmcli import console
from llmcli.cli.log_reading import reading, say_damaged, say_no_match
from llmcli.metrics.flat import cells, columns
from llmcli.metrics.request_log import Row, Selection

_BATCH = 200
"""Rows that are written at once."""

Lines = Callable[[list[dict[str, Any]]], str]


def export(chosen: Selection, *, as_csv: bool) -> None:
    """Print every chosen record; rows that cannot be read are left out and named. Raises LogUnusable, OutputClosed."""
    write: Lines = _csv_lines if as_csv else _json_lines
    damaged: list[str] = []
    if as_csv:
        console.write(_csv_text([[".".join(place) for place in columns()]]))
    with reading() as log:
        rows = log.all(chosen) if log else iter(())
        batches = iter(lambda: list(itertools.islice(rows, _BATCH)), [])
        found = 0
        for batch in batches:
            found += len(batch)
            console.write(write(list(_documents(batch, damaged))))
        if log and not found:
            say_no_match(log, chosen)
    say_damaged(damaged)


def _documents(rows: list[Row], damaged: list[str]) -> Iterator[dict[str, Any]]:
    for row in rows:
        document = row.document()
        if document is None:
            damaged.append(row.id)
        else:
            yield document


def _json_lines(documents: list[dict[str, Any]]) -> str:
    return "".join(f"{console.json_line(document)}\n" for document in documents)


def _csv_lines(documents: list[dict[str, Any]]) -> str:
    places = columns()
    return _csv_text([cells(document, places) for document in documents])


def _csv_text(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
