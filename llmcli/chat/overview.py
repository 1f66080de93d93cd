"""What `/show` and `/stats` say: the model, the context in use, every setting with its origin, the sums so far."""

from collections.abc import Sequence

from llmcli.chat.conversation import Conversation
from llmcli.chat.settings import Settings
from llmcli.inference import ModelInfo, SamplingOptions
from llmcli.metrics.line import verdict, weights_format
from llmcli.metrics.phases import dominant, shares_of, sum_of
from llmcli.metrics.record import Phases, RequestRecord
from llmcli.units import percent_text, rate_text, seconds_text


def overview(
    info: ModelInfo | None, conversation: Conversation, settings: Settings, records: Sequence[RequestRecord]
) -> list[tuple[str, str]]:
    """Names and values."""
    rows = settings.rows(info.generation_defaults if info else SamplingOptions())
    return [*_model(info), *_context(info, conversation, records), *rows.items()]


def _model(info: ModelInfo | None) -> list[tuple[str, str]]:
    if info is None:
        return [("model", "still loading")]
    drafts = f", {info.speculation}" if info.speculation else ""
    return [
        ("model", f"{info.name} from {info.source}"),
        (
            "weights",
            f"{weights_format(info)} on {info.device}, attention {info.attention}, decode {info.decode_path}{drafts}",
        ),
        ("KV cache", f"{info.kv_dtype}{', in main memory' if info.kv_offload else ''}"),
    ]


def _context(
    info: ModelInfo | None, conversation: Conversation, records: Sequence[RequestRecord]
) -> list[tuple[str, str]]:
    used = conversation.length
    if conversation.turns and records and info is not None:
        tokens = records[-1].tokens.prompt + records[-1].tokens.generated
        used += f", {tokens} of {info.context_limit} tokens ({percent_text(tokens / info.context_limit)})"
    elif info is not None:
        used += f", {info.context_limit} tokens of context ({info.context_bound_by})"
    return [("conversation", used), ("system", conversation.system or "(none)")]


def session_line(records: Sequence[RequestRecord]) -> str:
    """The sums of this session; rates are sums of tokens ÷ sums of seconds."""
    if not records:
        return "no answer yet in this session"
    seconds = sum_of([record.seconds for record in records])
    prompt, cached = (sum(getattr(record.tokens, name) for record in records) for name in ("prompt", "cached"))
    evaluated = sum(record.tokens.evaluated for record in records)
    steps = sum(record.tokens.decoded for record in records)
    shares = shares_of(seconds)
    parts = [
        f"session: {len(records)} answer{'' if len(records) == 1 else 's'}",
        f"prompt {prompt} ({cached} cached)",
        f"prefill {evaluated} tok {seconds_text(seconds.prefill)}",
    ]
    if steps and seconds.decode:
        parts.append(f"decode {steps} tok {seconds_text(seconds.decode)} {rate_text(steps / seconds.decode)}")
    parts.append(verdict(Phases(shares, dominant(seconds, shares))))
    return " · ".join(parts)
