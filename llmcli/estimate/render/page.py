"""The answer about one model as a page for people."""

from llmcli import console
from llmcli.estimate.architecture import Architecture
from llmcli.estimate.render.answers import answers, assumptions, gpus
from llmcli.estimate.render.bar import bar, legend, picture
from llmcli.estimate.render.head import head
from llmcli.estimate.render.lines import BLANK, Line, Paper, show, shown, stdout_paper
from llmcli.estimate.render.proof import proof
from llmcli.estimate.render.rows import rows_table
from llmcli.estimate.report import Estimate


def show_page(estimate: Estimate, model: Architecture) -> None:
    """Print the page on stdout and the warnings on stderr."""
    show(page(estimate, model, stdout_paper()))
    warn(estimate.warnings)


def page(estimate: Estimate, model: Architecture, paper: Paper) -> list[Line]:
    """Head, sizes, their picture, and what follows from them."""
    bars = [bar(f"{row.context} × {row.batch}" if row.batch > 1 else str(row.context), row) for row in estimate.rows]
    blocks = (
        head(estimate, model, paper),
        gpus(estimate, paper),
        rows_table(estimate.rows, paper),
        [*picture(bars, paper), *legend(bars, paper)],
        answers(estimate, paper),
        proof(estimate, paper),
        assumptions(estimate, paper),
    )
    return joined(blocks)


def joined(blocks: tuple[list[Line], ...]) -> list[Line]:
    """Blocks with a blank line between them; empty ones are left out."""
    lines: list[Line] = []
    for block in filter(None, blocks):
        lines += [BLANK, *block] if lines else block
    return lines


def warn(warnings: tuple[str, ...]) -> None:
    """Print warnings on stderr."""
    for warning in warnings:
        console.say(f"warning: {shown(warning)}", style="yellow")
