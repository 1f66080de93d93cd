"""What was really built and measured, beside what was estimated."""

from llmcli.estimate.render.lines import Line, Paper, sentence
from llmcli.estimate.report import Estimate, VerifyPart


def proof(estimate: Estimate, paper: Paper) -> list[Line]:
    """One sentence per cache that was built."""
    return [
        line
        for part in estimate.verified
        for line in sentence(proof_text(part), paper, style="green" if agrees(part) else "bold red")
    ]


def agrees(part: VerifyPart) -> bool:
    """Whether everything that was measured equals its estimate."""
    peak = part.measured_peak_bytes == part.estimated_peak_bytes
    return part.difference_bytes == 0 and peak and part.measured_params == part.estimated_params


def proof_text(part: VerifyPart) -> str:
    """What was measured at one context and batch, and how it differs from the estimate."""
    figures = (
        _compared("cache", part.measured_bytes, part.estimated_bytes, " bytes"),
        _compared(
            "at the end of a prefill in one piece", part.measured_peak_bytes, part.estimated_peak_bytes, " bytes"
        ),
        _compared("parameters", part.measured_params, part.estimated_params, ""),
    )
    return f"measured ({part.how}) at context {part.context}, batch {part.batch}: {', '.join(figures)}"


def _compared(what: str, measured: int, estimated: int, unit: str) -> str:
    if measured == estimated:
        return f"{what} {measured}{unit} as estimated"
    return f"{what} {measured}{unit}, {measured - estimated:+d} against the estimate of {estimated}"
