"""The phase line: one request in one line."""

from llmcli.inference import ModelInfo
from llmcli.metrics.record import Model, Phases, RequestRecord, Tokens
from llmcli.units import percent_text, rate_text, seconds_text

RATE_FROM = 64
"""Below so many evaluated tokens a prefill rate says nothing, and only the time is shown."""


def phase_line(record: RequestRecord) -> str:
    """`prompt 812 (790 cached) · prefill 22 tok 50 ms · ttft 0.07 s · decode 164 tok 2.0 s 82 tok/s · decode 97 %`.

    `decode N tok` is n-1, so that N ÷ seconds is the rate; what speculation proposed for it follows. A cache that broke
    is named with the position where, after the prompt. An end other than eos or a stop text is named last. A batch
    comes first; its tokens are sums over it.
    """
    parts = [] if record.tokens.batch == 1 else [f"batch {record.tokens.batch}"]
    parts.append(_prompt(record.tokens))
    if record.tokens.cache_break_at is not None:
        parts.append(f"cache broke at {record.tokens.cache_break_at}")
    parts.append(_prefill(record))
    if record.seconds.ttft is not None:
        ttft = record.seconds.ttft
        parts.append(f"ttft {ttft:.2f} s" if ttft >= 0.01 else f"ttft {seconds_text(ttft)}")
    if record.rates.generation_tps is not None and record.seconds.decode is not None:
        took = seconds_text(record.seconds.decode)
        parts.append(f"decode {record.tokens.decoded} tok {took} {rate_text(record.rates.generation_tps)}")
    if record.tokens.drafted:
        parts.append(f"{record.tokens.accepted} of {record.tokens.drafted} drafts held")
    parts.append(verdict(record.phases))
    if record.finish_reason not in {"eos", "stop"}:
        parts.append(record.finish_reason)
    return " · ".join(parts)


def weights_format(model: Model | ModelInfo) -> str:
    """What the weights are in: the dtype, or the quantization with the dtype that it computes in."""
    return model.dtype if model.quant == "none" else f"{model.quant} ({model.dtype})"


def verdict(phases: Phases) -> str:
    """The dominant phase with its share of total: `decode 94 %`, `other (queue) 61 %`."""
    share: float = getattr(phases.shares, phases.dominant.split(" ", maxsplit=1)[0])
    return f"{phases.dominant} {percent_text(share)}"


def _prompt(tokens: Tokens) -> str:
    return f"prompt {tokens.prompt}" + (f" ({tokens.cached} cached)" if tokens.cached else "")


def _prefill(record: RequestRecord) -> str:
    text = f"prefill {record.tokens.evaluated} tok {seconds_text(record.seconds.prefill)}"
    rate = record.rates.prompt_eval_tps
    return f"{text} {rate_text(rate)}" if rate is not None and record.tokens.evaluated >= RATE_FROM else text
