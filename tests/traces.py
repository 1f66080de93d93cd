"""Traces and records of requests that never ran, for tests of arithmetic."""

from datetime import UTC, datetime

from llmcli.inference import GenerateRequest, ModelInfo, Sampling, SamplingOptions, Trace
from llmcli.metrics.phases import Delivery
from llmcli.metrics.record import record_of

INFO = ModelInfo(
    name="test",
    source="test",
    revision=None,
    architecture="LlamaForCausalLM",
    params=8_000_000_000,
    quant="none",
    dtype="bfloat16",
    weight_bytes=16_000_000_000,
    streamed_bytes=15_000_000_000,
    device="cpu",
    attention="sdpa",
    decode_path="eager",
    context_limit=131_072,
    context_bound_by="model",
    vocab_size=128_256,
    threads=2,
    load_seconds=1.0,
    generation_defaults=SamplingOptions(),
    versions={"llmcli": "0", "torch": "0", "transformers": "0"},
)


def trace_of(*, prompt=10, cached=0, evaluated=None, prefill=1.0, generated=2, per_token=0.1, **more) -> Trace:
    """A trace whose other phases take no time, unless `more` says otherwise."""
    arrivals = tuple(prefill + i * per_token for i in range(generated))
    values = {
        "prompt": prompt,
        "cached": cached,
        "evaluated": prompt - cached if evaluated is None else evaluated,
        "truncated": 0,
        "steps": max(0, generated - 1),
        "arrivals": arrivals,
        "submitted": 0.0,
        "taken": 0.0,
        "templated": 0.0,
        "tokenized": 0.0,
        "prefill_started": 0.0,
        "prefill_ended": prefill,
        "ended": arrivals[-1] if arrivals else prefill,
        "detokenize": 0.0,
        "finish_reason": "eos",
    }
    return Trace(**(values | more))


def record(trace: Trace, *, delivered=None, chars=0):
    """The record of a trace whose text was delivered with its last token, or at `delivered`."""
    sampling = Sampling(0.0, 1.0, 0, 0.0, 1.0, None, 100)
    delivery = Delivery(None, trace.ended if delivered is None else delivered, chars=chars)
    request = GenerateRequest((1,), sampling)
    return record_of(INFO, request, trace, delivery, command="chat", started_at=datetime.now(UTC))
