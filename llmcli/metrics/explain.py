"""The words of a request, each with its definition and this request's figures."""

from collections.abc import Iterator
from dataclasses import dataclass

from llmcli.metrics.line import verdict
from llmcli.metrics.record import RequestRecord, Tokens
from llmcli.metrics.roofline import achieved_bandwidth
from llmcli.units import bytes_text, percent_text, rate_text, seconds_text


@dataclass(frozen=True, slots=True)
class Row:
    """A word, its value in this request, and what it means."""

    word: str
    value: str
    meaning: str


def rows(record: RequestRecord) -> tuple[Row, ...]:
    """Every figure of a request in the order of time."""
    return (*_before(record), *_phases(record), *_after(record))


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else seconds_text(seconds)


def _before(record: RequestRecord) -> Iterator[Row]:
    tokens, seconds = record.tokens, record.seconds
    whole = tokens.cached + tokens.evaluated == tokens.prompt
    counts = f"{tokens.cached} cached + {tokens.evaluated} evaluated"
    meaning = "ids of the whole rendered prompt " + (f"= {counts}" if whole else f"({counts} before the end)")
    if tokens.batch > 1:
        yield Row("batch", str(tokens.batch), "sequences that run beside each other; all token counts are their sums")
    yield Row("prompt", f"{tokens.prompt} tok", meaning)
    yield from _cache(record)
    yield Row("load_wait", _time(seconds.load_wait), "waited for libraries and weights to load; outside total")
    yield Row("queue", _time(seconds.queue), "submitted → the engine takes the request")
    yield Row("template", _time(seconds.template), "chat template rendering")
    yield Row("tokenize", _time(seconds.tokenize), "text → ids")


_MISSES = {
    "prefix_changed": "the prompt differs from the cache before the cache's end",
    "not_croppable": "the model's cache cannot go back to where the prompt differs: all of it was evaluated again",
    "evicted": "the cache was given up, after a failure or for another request",
    "expired": "the cache was given up after a time without use",
    "model_changed": "the cache belongs to another model or other settings",
}


def _cache(record: RequestRecord) -> Iterator[Row]:
    tokens, cache = record.tokens, record.cache
    meaning = "ids whose keys and values were there from earlier requests; they take no prefill"
    if cache.age_s is not None:
        meaning += f" (cache last used {seconds_text(cache.age_s)} before)"
    yield Row("cached", f"{tokens.cached} tok", meaning)
    if tokens.cache_break_at is not None:
        meaning = "position of the first id in which the cache and the prompt differ; all from there is evaluated"
        yield Row("cache_break_at", str(tokens.cache_break_at), meaning)
    if cache.miss_reason is not None:
        yield Row("miss_reason", cache.miss_reason, _MISSES[cache.miss_reason])


def _phases(record: RequestRecord) -> Iterator[Row]:
    tokens, seconds, rates = record.tokens, record.seconds, record.rates
    yield Row("prefill", _time(seconds.prefill), "all evaluated prompt tokens through the model, in chunks")
    if rates.prompt_eval_tps is not None:
        meaning = f"evaluated ÷ prefill = {tokens.evaluated} ÷ {seconds.prefill:.3f} s"
        yield Row("prompt_eval_tps", rate_text(rates.prompt_eval_tps), meaning)
    yield Row("first_sample", _time(seconds.first_sample), "last prompt logits → first id known")
    yield Row("unattributed", _time(seconds.unattributed), "between the parts above; never guessed")
    yield Row("ttft", _time(seconds.ttft), "submitted → first token: the sum of queue … unattributed")
    yield Row("first_text", _time(seconds.first_text), "submitted → first character delivered")
    made = f"{min(tokens.batch, tokens.generated)} from prefill + {_decoded(tokens)}"
    yield Row("decode", _time(seconds.decode), f"first token → last token: {tokens.generated} tokens = {made}")
    yield from _speculation(tokens)
    if rates.generation_tps is not None and seconds.decode is not None:
        formula = "(n-1)" if tokens.batch == 1 else f"{tokens.batch} × (n-1)"
        meaning = f"{formula} ÷ decode = {tokens.decoded} ÷ {seconds.decode:.3f} s"
        yield Row("generation_tps", rate_text(rates.generation_tps), meaning)
    read = record.ceiling.bytes_per_step
    if seconds.decode and tokens.steps and read is not None:
        bandwidth = achieved_bandwidth(read, tokens.steps / seconds.decode) / 1e9
        meaning = f"weights + KV cache that the last step read: {bandwidth:.1f} GB/s at this speed"
        yield Row("bytes_per_step", bytes_text(read), meaning)
    if record.itl_ms.p50 is not None:
        itl = record.itl_ms
        meaning = f"gaps between tokens: p50; p95 {itl.p95:.1f}, p99 {itl.p99:.1f}, max {itl.max:.1f} ms"
        yield Row("ITL", f"{itl.p50:.1f} ms", meaning)


def _decoded(tokens: Tokens) -> str:
    """The tokens after the first, by where they came from."""
    if tokens.batch > 1:
        return f"{tokens.decoded} from decode"
    drafts = f" + {tokens.accepted} drafts" if tokens.accepted else ""
    return f"{tokens.decoded - tokens.accepted} decode steps{drafts}"


def _speculation(tokens: Tokens) -> Iterator[Row]:
    """Tokens and steps are counted apart: a step makes one token, and one more for each draft that holds."""
    if not tokens.drafted:
        return
    yield Row("drafted", f"{tokens.drafted} tok", "proposed by speculation, several for one step to check")
    meaning = f"drafts that became part of the answer: {percent_text(tokens.accepted / tokens.drafted)} of them"
    yield Row("accepted", f"{tokens.accepted} tok", meaning)
    yield Row("steps", str(tokens.steps), "decode forwards; tokens of one step arrive together, with ITL gaps of 0")


def _after(record: RequestRecord) -> Iterator[Row]:
    seconds, shares = record.seconds, record.phases.shares
    yield Row("tail", _time(seconds.tail), "last token → last text delivered")
    formula = "ttft + decode + tail" if seconds.ttft is not None else "the parts above + tail"
    yield Row("total", _time(seconds.total), f"submitted → last text delivered = {formula}")
    beside = "busy seconds beside decode, part of no sum"
    yield Row("detokenize", _time(seconds.detokenize), f"ids → text: {beside}")
    yield Row("render", _time(seconds.render), f"text → screen: {beside}")
    split = f"prefill {percent_text(shares.prefill)}, decode {percent_text(shares.decode)}"
    yield Row("verdict", verdict(record.phases), f"of total: {split}, other {percent_text(shares.other)}")
    if record.memory.kv_bytes is not None:
        yield Row("kv_bytes", bytes_text(record.memory.kv_bytes), "keys and values of all tokens held at the end")
    yield Row("finish_reason", record.finish_reason, "eos, stop, length, context, memory, interrupted or error")
