"""Whether a model fits, in one sentence: what most people ask."""

from llmcli.estimate.render.figures import context_text, size_text
from llmcli.estimate.render.lines import Line, Paper, sentence
from llmcli.estimate.report import Estimate


def verdict(estimate: Estimate, paper: Paper) -> list[Line]:
    """Does everything that was asked for fit, and how long a context does; nothing where no VRAM is given."""
    rows = [row for row in estimate.rows if row.fits is not None]
    if not rows:
        return []
    fit = [bool(row.fits) for row in rows] + ([bool(estimate.mix.fits)] if estimate.mix else [])
    if all(fit):
        says, style = "It fits", "bold green"
    elif any(fit):
        says, style = "Not everything fits", "bold yellow"
    else:
        says, style = "It does not fit", "bold red"
    return sentence(f"{says} into {size_text(rows[0].vram_bytes or 0)}{_longest(estimate)}", paper, style=style)


def _longest(estimate: Estimate) -> str:
    """How long a context fits, or why none does."""
    batch = max(row.batch for row in estimate.rows)
    if estimate.max_context:
        return f"; longest context that fits at batch {batch}: {context_text(estimate.max_context, ' tokens')}"
    row = estimate.rows[0]
    if row.weights_bytes > (row.vram_bytes or 0):
        return f": the weights alone take {size_text(row.weights_bytes)}"
    return f": at batch {batch} not even one token of context does"
