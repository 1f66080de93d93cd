"""Clock readings to phases: every second of a request has one name."""

from collections.abc import Sequence
from dataclasses import dataclass

from llmcli.inference import Trace


@dataclass(frozen=True, slots=True)
class Delivery:
    """What the person saw, in readings of the engine's clock and busy seconds.

    first_text: the first character was delivered, None when there was none. delivered: the last one was, or the
    request's end was. render: busy seconds of text to screen. chars: delivered characters. load_wait: seconds that
    the request waited for the model to load, before it was submitted.
    """

    first_text: float | None
    delivered: float
    render: float = 0.0
    chars: int = 0
    load_wait: float = 0.0


@dataclass(frozen=True, slots=True)
class Seconds:
    """The durations of one request in seconds (DESIGN section 2 defines each).

    With a first token, ttft = queue + template + tokenize + network + prefill + first_sample + unattributed and
    total = ttft + decode + tail. Without one, ttft and decode are None, and total is the sum of the other parts.
    detokenize and render run beside decode and are part of no sum.
    """

    load_wait: float
    queue: float
    template: float
    tokenize: float
    network: float
    prefill: float
    first_sample: float | None
    unattributed: float
    ttft: float | None
    first_text: float | None
    decode: float | None
    tail: float
    total: float
    detokenize: float
    render: float


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of total, adding up to 1."""

    prefill: float
    decode: float
    other: float


def seconds_of(trace: Trace, delivery: Delivery) -> Seconds:
    """The phases of a request, also of one that ended before its first token."""
    taken = _or(trace.taken, trace.ended)
    templated = _or(trace.templated, taken)
    tokenized = _or(trace.tokenized, templated)
    started = _or(trace.prefill_started, tokenized)
    first, last = (trace.arrivals[0], trace.arrivals[-1]) if trace.arrivals else (None, None)
    # A prefill that was cut short lasted until the engine gave it up.
    prefilled = _or(trace.prefill_ended, trace.ended) if first is not None else trace.ended
    if trace.prefill_started is None:
        prefilled = started
    return Seconds(
        load_wait=delivery.load_wait,
        queue=taken - trace.submitted,
        template=templated - taken,
        tokenize=tokenized - templated,
        network=0.0,
        prefill=prefilled - started,
        first_sample=None if first is None else first - prefilled,
        unattributed=started - tokenized,
        ttft=None if first is None else first - trace.submitted,
        first_text=None if delivery.first_text is None else delivery.first_text - trace.submitted,
        decode=None if first is None or last is None else last - first,
        tail=delivery.delivered - (prefilled if last is None else last),
        total=delivery.delivered - trace.submitted,
        detokenize=trace.detokenize,
        render=delivery.render,
    )


def _or(reading: float | None, otherwise: float) -> float:
    return otherwise if reading is None else reading


def shares_of(seconds: Seconds) -> Shares:
    """The share of each phase in total; all of an empty total is `other`."""
    if seconds.total <= 0:
        return Shares(0.0, 0.0, 1.0)
    prefill = seconds.prefill / seconds.total
    decode = (seconds.decode or 0.0) / seconds.total
    return Shares(prefill, decode, max(0.0, 1.0 - prefill - decode))


def sum_of(many: Sequence[Seconds]) -> Seconds:
    """The durations of several requests together; what a request did not reach counts nothing."""
    names = Seconds.__dataclass_fields__
    return Seconds(**{name: sum(getattr(seconds, name) or 0.0 for seconds in many) for name in names})


_OTHER = ("queue", "template", "tokenize", "network", "first_sample", "unattributed", "tail")


def dominant(seconds: Seconds, shares: Shares) -> str:
    """The largest share: `prefill`, `decode`, or `other` with its biggest part, as in `other (queue)`."""
    if shares.decode >= max(shares.prefill, shares.other):
        return "decode"
    if shares.prefill >= shares.other:
        return "prefill"
    return f"other ({max(_OTHER, key=lambda part: getattr(seconds, part) or 0.0)})"
