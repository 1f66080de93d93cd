"""The answer of `estimate-kv` as a table for people."""

import sys
from typing import TYPE_CHECKING

from llmcli import console
from llmcli.estimate.architecture import Architecture
from llmcli.estimate.dtypes import BYTES
from llmcli.estimate.report import Estimate, Row
from llmcli.units import bytes_text, count_text

if TYPE_CHECKING:
    from rich.console import RenderableType


def show_table(estimate: Estimate, model: Architecture) -> None:
    """Print the table on stdout and the warnings on stderr."""
    from rich.console import Group
    from rich.text import Text

    def text(lines: list[str]) -> Text:
        return Text(console.fit_encoding("\n".join(lines), sys.stdout))

    parts = (text(head_lines(estimate, model)), Text(), _table(estimate), Text(), text(foot_lines(estimate)))
    console.show(Group(*parts))
    for warning in estimate.warnings:
        console.say(f"warning: {warning}", style="yellow")


def head_lines(estimate: Estimate, model: Architecture) -> list[str]:
    """What the model is and how its cache grows."""
    named = "" if estimate.model.architecture == estimate.model.name else f"{estimate.model.architecture}, "
    lines = [f"{estimate.model.name}: {named}{count_text(estimate.model.params)} parameters"]
    element = BYTES[estimate.kv.dtype]
    formula = (
        f"2 × {model.layer_count} layers × {model.kv_heads} KV heads × {model.head_dim} head_dim × {element} bytes"
    )
    per_token = estimate.kv.bytes_per_token_short
    lines.append(f"KV cache in {estimate.kv.dtype}: {formula} = {per_token} bytes per token")
    if model.kv_heads < model.heads:
        factor = f"{model.heads / model.kv_heads:.2f}".rstrip("0").rstrip(".")
        shared = f"{model.heads} attention heads share {model.kv_heads} KV heads"
        lines.append(f"{shared}: the MHA formula would say {factor} × as much")
    lines.append(f"weights: {bytes_text(estimate.rows[0].weights_bytes)}, part of every total")
    return lines


def foot_lines(estimate: Estimate) -> list[str]:
    """The longest context that fits, and what was assumed."""
    lines = []
    batch = max(row.batch for row in estimate.rows)
    if estimate.max_context:
        lines.append(f"longest context that fits at batch {batch}: {estimate.max_context} tokens")
    return [*lines, *(f"- {note}" for note in estimate.assumptions)]


def _table(estimate: Estimate) -> "RenderableType":
    from rich.table import Table

    with_vram = any(row.vram_bytes is not None for row in estimate.rows)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("context", "batch"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("KV", "total"):
        table.add_column(heading, justify="right")
    if with_vram:
        table.add_column("fits")
    for row in estimate.rows:
        table.add_row(*_cells(row))
    return table


def _cells(row: Row) -> list[str]:
    cells = [str(row.context), str(row.batch)]
    cells += [bytes_text(size) for size in (row.kv_bytes, row.total_bytes)]
    if row.headroom_bytes is not None:
        room = bytes_text(abs(row.headroom_bytes))
        cells.append(f"yes, {room} left" if row.fits else f"no, {room} short")
    return cells
