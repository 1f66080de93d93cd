"""Tables that lose whole columns, never digits, where there is no room."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.table import Table

Side = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column. heading: one or two lines. least: characters that its cells may be cut down to, None: never cut."""

    heading: str
    cells: tuple[str, ...]
    side: Side = "right"
    least: int | None = None

    @property
    def width(self) -> int:
        """Characters of the widest cell, as a terminal counts them."""
        from rich.cells import cell_len

        return max(map(cell_len, (*self.heading.splitlines(), *self.cells)))


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns side by side, `gap` characters apart."""

    columns: tuple[Column, ...]
    gap: int = 2

    @property
    def needs(self) -> int:
        """Characters a line of the narrowest form."""
        widths = (column.width if column.least is None else column.least for column in self.columns)
        return sum(widths) + self.gap * (len(self.columns) - 1)

    def table(self, width: int) -> "Table":
        """The table in lines of at most `width` characters, if they suffice."""
        from rich.table import Table

        free = max(0, width - self.needs)
        grid = Table(box=None, pad_edge=False, padding=(0, self.gap, 0, 0), header_style="bold")
        for column in self.columns:
            most = None if column.least is None else min(column.width, column.least + free)
            grid.add_column(
                column.heading,
                justify=column.side,
                vertical="bottom",
                overflow="ellipsis",
                no_wrap=True,
                min_width=column.width if most is None else most,
                max_width=most,
            )
        for row in zip(*(column.cells for column in self.columns), strict=True):
            grid.add_row(*row)
        return grid


def fitting(layouts: Sequence[Layout], width: int) -> "Table":
    """The first layout that fits lines of `width` characters, or else the last, as a table."""
    chosen = next((layout for layout in layouts if layout.needs <= width), layouts[-1])
    return chosen.table(width)
