"""A picture of the bytes over the context, in a file: stacked areas and the VRAM. Needs matplotlib."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llmcli.errors import LlmcliError
from llmcli.estimate.render.bar import bar
from llmcli.estimate.render.figures import size_text
from llmcli.estimate.render.lines import shown
from llmcli.estimate.report import Estimate, Row
from llmcli.units import GIB

_PARTS = ("weights", "KV cache", "activations", "overhead")
_COLOURS = ("#4878a8", "#6aa35c", "#d9a441", "#a06aa0")
_FONTS = ("DejaVu Sans", "Noto Sans CJK KR", "Noto Sans KR", "NanumGothic", "Malgun Gothic", "Apple SD Gothic Neo")
_ACROSS = 3


def draw(estimates: Sequence[Estimate], path: Path) -> bool:
    """Draw one panel per model and batch; False where no font has all characters of the names.

    The rows of an estimate are the points of its areas: contexts from small to large, for every batch. Raises
    LlmcliError when the file cannot be written.
    """
    import matplotlib as mpl

    with (
        mpl.rc_context({"font.family": _fonts(), "svg.fonttype": "none"}),
        warnings.catch_warnings(record=True) as said,
    ):
        warnings.filterwarnings("always", message="Glyph .* missing from")
        try:
            _figure(estimates).savefig(path)
        except OSError as error:
            raise LlmcliError(
                f"--plot {path} cannot be written: {error.strerror or error}", "Name a file that you may write."
            ) from error
    return not said


def _figure(estimates: Sequence[Estimate]) -> Any:
    from matplotlib.figure import Figure

    panels = [
        (one, [row for row in one.rows if row.batch == batch])
        for one in estimates
        for batch in dict.fromkeys(row.batch for row in one.rows)
    ]
    across = min(_ACROSS, len(panels))
    down = -(-len(panels) // across)
    figure = Figure(figsize=(1 + 5 * across, 4 * down), layout="constrained")
    axes = list(figure.subplots(down, across, sharey=True, squeeze=False).flat)
    used = [part for part in range(len(_PARTS)) if any(bar("", row).parts[part] for _, rows in panels for row in rows)]
    for axis, (one, rows) in zip(axes, panels, strict=False):
        _panel(axis, one, rows, used)
    for axis in axes[len(panels) :]:
        axis.remove()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(_PARTS) + 1)
    return figure


def _panel(axis: Any, estimate: Estimate, rows: Sequence[Row], used: Sequence[int]) -> None:
    """Areas of the parts over the context, and the VRAM as a line. used: the parts that any panel has."""
    contexts = [row.context for row in rows]
    parts = list(zip(*(bar("", row).parts for row in rows), strict=True))
    sizes = [[size / GIB for size in parts[part]] for part in used]
    axis.stackplot(contexts, *sizes, labels=[_PARTS[part] for part in used], colors=[_COLOURS[part] for part in used])
    vram = rows[0].vram_bytes
    if vram is not None:
        axis.axhline(vram / GIB, color="black", linestyle="--", label=f"VRAM {size_text(vram)}")
    exact = "" if estimate.kv.exact else ", not exact"
    name = shown(estimate.model.name).replace("$", r"\$")
    axis.set_title(f"{name}, batch {rows[0].batch}\nKV in {estimate.kv.dtype}, {estimate.engine}{exact}", fontsize=10)
    axis.set_xlabel("context in tokens")
    axis.set_ylabel("GiB")
    axis.set_xlim(contexts[0], contexts[-1])
    axis.set_ylim(bottom=0)


def _fonts() -> list[str]:
    """The fonts to look a character up in, as far as they are installed."""
    from matplotlib.font_manager import get_font_names

    there = set(get_font_names())
    return [name for name in _FONTS if name in there]
