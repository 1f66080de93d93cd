"""The sizes as CSV: one line per model, context and batch, all sizes in bytes."""

import csv
import io
from collections.abc import Sequence
from dataclasses import fields

from llmcli.estimate.report import Estimate, Row

_MODEL = ("model", "engine", "engine_version", "kv_dtype", "exact")
_ROW = tuple(field.name for field in fields(Row))


def csv_rows(estimates: Sequence[Estimate]) -> str:
    """A header and the lines, each with the model's longest context. Unknown is empty; true and false as in JSON."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*_MODEL, *_ROW, "max_context"))
    for one in estimates:
        named = (one.model.name, one.engine, one.engine_version, one.kv.dtype, _cell(one.kv.exact))
        writer.writerows((*named, *(_cell(getattr(row, name)) for name in _ROW), one.max_context) for row in one.rows)
    return text.getvalue()


def _cell(value: object) -> object:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else value
