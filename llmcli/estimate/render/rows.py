"""The sizes of every context and batch as a table."""

from collections.abc import Callable, Sequence

from llmcli.estimate.render.columns import Column, Layout, table
from llmcli.estimate.render.figures import size_text
from llmcli.estimate.render.lines import Line, Paper
from llmcli.estimate.report import Row


def rows_table(rows: Sequence[Row], paper: Paper) -> list[Line]:
    """One line per row; narrow terminals get fewer columns."""
    lead = (
        number_column("context", rows, lambda row: row.context),
        number_column("batch", rows, lambda row: row.batch),
    )
    return table([(*lead, *layout) for layout in size_layouts(rows)], paper.width)


def size_layouts(rows: Sequence[Row]) -> list[Layout]:
    """The columns of sizes, from all of them to the few that matter most."""
    cache, total = size_column("KV", rows, lambda row: row.kv_bytes), size_column("total", rows, _total)
    peak = [size_column("KV at\nprefill", rows, lambda row: row.kv_peak_bytes)] if any(map(_peaks, rows)) else []
    more = []
    if any(row.kv_allocated_bytes != row.kv_bytes for row in rows):
        more.append(size_column("KV\nreserved", rows, lambda row: row.kv_allocated_bytes))
    more.append(size_column("activations", rows, lambda row: row.activation_bytes))
    if any(row.weights_bytes != rows[0].weights_bytes for row in rows):
        more.append(size_column("weights", rows, lambda row: row.weights_bytes))
    if any(row.overhead_bytes != rows[0].overhead_bytes for row in rows):
        more.append(size_column("overhead", rows, lambda row: row.overhead_bytes))
    fits, short = _fits(rows)
    layouts = [(cache, *peak, *more, total, *fits), (cache, *peak, total, *fits), (cache, total, *fits)]
    return [*layouts, (cache, total, *short), (total, *short)]


def number_column(heading: str, rows: Sequence[Row], number: Callable[[Row], int]) -> Column:
    """A column of whole numbers."""
    return Column(heading, tuple(str(number(row)) for row in rows))


def size_column(heading: str, rows: Sequence[Row], size: Callable[[Row], int | None]) -> Column:
    """A column of sizes, `-` where one is not known."""
    sizes = map(size, rows)
    return Column(heading, tuple("-" if one is None else size_text(one) for one in sizes))


def fits_text(row: Row) -> str:
    """Whether the row fits, and what is left or missing; nothing where that was not asked."""
    if row.headroom_bytes is None:
        return ""
    room = size_text(abs(row.headroom_bytes))
    return f"yes, {room} left" if row.fits else f"no, {room} short"


def _fits(rows: Sequence[Row]) -> tuple[Layout, Layout]:
    """The column that says it in full and the one that says yes or no; none where nothing is asked about fitting."""
    if all(row.fits is None for row in rows):
        return (), ()
    styles = tuple("" if row.fits is None else "green" if row.fits else "red" for row in rows)
    words = tuple("" if row.fits is None else "yes" if row.fits else "no" for row in rows)
    full = tuple(map(fits_text, rows))
    return (Column("fits", full, left=True, styles=styles),), (Column("fits", words, left=True, styles=styles),)


def _total(row: Row) -> int:
    return row.total_bytes


def _peaks(row: Row) -> bool:
    return row.kv_peak_bytes != row.kv_bytes
