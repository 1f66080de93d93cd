"""The sizes as a GitHub table: one line per model, context and batch."""

import re
from collections.abc import Callable, Sequence

from llmcli.estimate.render.figures import context_text, size_text
from llmcli.estimate.render.lines import shown
from llmcli.estimate.render.rows import fits_text
from llmcli.estimate.report import Estimate, Row

_MARKS = re.compile(r"([\\|`*<\[])")
_Cell = Callable[[Estimate, Row], str | None]


def markdown(estimates: Sequence[Estimate]) -> str:
    """The table; columns that nothing is known for are left out."""
    pairs = [(one, row) for one in estimates for row in one.rows]
    columns = [(name, [cell(*pair) for pair in pairs]) for name, cell in _COLUMNS.items()]
    columns = [(name, column) for name, column in columns if any(text is not None for text in column)]
    peaks = any(row.kv_peak_bytes != row.kv_bytes for _, row in pairs)
    columns = [(name, column) for name, column in columns if peaks or name != _PEAK]
    head = [name for name, _ in columns]
    rule = ["---" if name in _LEFT else "---:" for name in head]
    body = [[text or "" for text in row] for row in zip(*(column for _, column in columns), strict=True)]
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *body))


def _text(text: str) -> str:
    return _MARKS.sub(r"\\\1", shown(text))


def _longest(estimate: Estimate, _row: Row) -> str | None:
    return None if estimate.max_context is None else context_text(estimate.max_context)


_PEAK = "KV at prefill"
_LEFT = ("model", "engine", "fits")
_COLUMNS: dict[str, _Cell] = {
    "model": lambda one, _: _text(one.model.name),
    "engine": lambda one, _: _text(one.engine),
    "context": lambda _, row: str(row.context),
    "batch": lambda _, row: str(row.batch),
    "KV": lambda one, row: f"{'' if one.kv.exact else '≈ '}{size_text(row.kv_bytes)}",
    _PEAK: lambda _, row: size_text(row.kv_peak_bytes),
    "weights": lambda _, row: size_text(row.weights_bytes),
    "activations": lambda _, row: size_text(row.activation_bytes),
    "overhead": lambda _, row: size_text(row.overhead_bytes),
    "total": lambda _, row: size_text(row.total_bytes),
    "fits": lambda _, row: fits_text(row) or None,
    "longest context": _longest,
}
