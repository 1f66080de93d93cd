"""What follows from the sizes, in sentences: what fits, what else would, what a mix takes, how decode slows down."""

from llmcli.estimate.render.columns import Column, table
from llmcli.estimate.render.figures import context_text, size_text, times
from llmcli.estimate.render.lines import BLANK, Line, Paper, sentence
from llmcli.estimate.report import ComparisonPart, DecodePart, Estimate, MixPart, PromptPart
from llmcli.units import percent_text, rate_figure


def answers(estimate: Estimate, paper: Paper) -> list[Line]:
    """Everything that was asked for and found, one block per question."""
    short = [*_comparison(estimate), *_prompt(estimate.prompt)]
    lines = [line for text in short for line in sentence(text, paper)]
    for block in (_advice(estimate, paper), _mix(estimate.mix, paper), _decode(estimate.decode, paper)):
        lines += [BLANK, *block] if block and lines else block
    return lines


def gpus(estimate: Estimate, paper: Paper) -> list[Line]:
    """One sentence per GPU."""
    return [
        line
        for gpu in estimate.gpus
        for line in sentence(
            f"GPU {gpu.index}, {gpu.name}: {size_text(gpu.free_bytes)} of {size_text(gpu.total_bytes)} free", paper
        )
    ]


def assumptions(estimate: Estimate, paper: Paper) -> list[Line]:
    """What was taken for granted, one sentence each."""
    return [line for note in estimate.assumptions for line in sentence(f"- {note}", paper)]


def _comparison(estimate: Estimate) -> list[str]:
    """A sentence per engine that holds another number of bytes."""
    return [_other(part) for part in estimate.comparison if part.ratio != 1]


def _other(part: ComparisonPart) -> str:
    at = f"at context {part.context}, batch {part.batch}"
    factor = times(part.ratio) if times(part.ratio) != times(1) else "about"
    return f"{part.engine} would hold {size_text(part.kv_bytes)} of KV {at}, {factor} as much"


def _prompt(prompt: PromptPart | None) -> list[str]:
    if prompt is None:
        return []
    rate = f"{prompt.characters_per_token:.2f} characters per token"
    return [f"{prompt.file}: {prompt.tokens} tokens, {prompt.characters} characters, {rate}"]


def _advice(estimate: Estimate, paper: Paper) -> list[Line]:
    if all(row.fits is not False for row in estimate.rows):
        return []
    says = "Not everything fits" if any(row.fits for row in estimate.rows) else "It does not fit"
    if not estimate.advice:
        return sentence(f"{says}, and no setting makes it fit: that takes more memory, or another model", paper)
    lines = sentence(f"{says}. What would help, the most effective first:", paper)
    for number, part in enumerate(estimate.advice, start=1):
        after = f"{size_text(part.total_bytes)} in all, {'fits' if part.fits else 'does not fit yet'}"
        longest = f", longest context {context_text(part.max_context)}" if part.max_context else ""
        text = f"{number}. {part.change}: {size_text(part.saved_bytes)} less, {after}{longest}"
        lines += sentence(text, paper, style="green" if part.fits else "")
    return lines


def _mix(mix: MixPart | None, paper: Paper) -> list[Line]:
    if mix is None:
        return []
    wasted = f"{size_text(mix.wasted_bytes)} ({percent_text(mix.wasted_share)}) of it wasted"
    many = "s" if len(mix.contexts) > 1 else ""
    reserved = f"{len(mix.contexts)} reservation{many} of {max(mix.contexts)}: {size_text(mix.reserved_bytes)}"
    fits = "" if mix.fits is None else ", fits" if mix.fits else ", does not fit"
    return [
        *sentence(f"requests of {', '.join(map(str, mix.contexts))} tokens at once:", paper),
        *sentence(f"in pages as long as each: {size_text(mix.paged_bytes)} of KV", paper, indent=2),
        *sentence(f"{reserved}, {wasted}", paper, indent=2),
        *sentence(f"total, in pages: {size_text(mix.total_bytes)}{fits}", paper, indent=2),
    ]


def _decode(parts: tuple[DecodePart, ...], paper: Paper) -> list[Line]:
    """What bandwidth allows at most, at each depth."""
    if not parts:
        return []
    contexts = Column("context", tuple(str(part.context) for part in parts))
    batches = Column("batch", tuple(str(part.batch) for part in parts))
    weights = Column("weights\nread", tuple(size_text(part.weights_read_bytes) for part in parts))
    cache = Column("KV\nread", tuple(size_text(part.kv_read_bytes) for part in parts))
    steps = Column("ms per\nstep", tuple(f"{part.seconds_per_step * 1000:.1f}" for part in parts))
    rates = Column("tok/s", tuple(rate_figure(part.tokens_per_second) for part in parts))
    slower = Column("slow-\ndown", tuple(f"{part.slowdown:.2f} ×" for part in parts))
    ends = (steps, rates, slower)
    layouts = [
        (contexts, batches, weights, cache, *ends),
        (contexts, batches, cache, *ends),
        (contexts, batches, *ends),
    ]
    return [*sentence("the most that the bandwidth lets decode reach:", paper), *table(layouts, paper.width)]
