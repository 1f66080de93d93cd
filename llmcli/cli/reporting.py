"""What is said after an answer besides its figures."""

from llmcli import console
from llmcli.metrics.record import RequestRecord


def tell_notices(notices: tuple[str, ...]) -> None:
    """Say what there is to say about how a request was served."""
    for notice in notices:
        console.say(f"notice: {notice}")


def tell_why_cut(record: RequestRecord, *, more: str, room: str) -> None:
    """Say when a limit cut the answer. more: what allows longer answers; room: what makes room in the context."""
    if record.finish_reason == "length":
        limit = record.sampling["max_new_tokens"]
        console.say(f"notice: the answer was cut at {limit} tokens; {more} allows more")
    if record.finish_reason == "context":
        limit = record.model.context_limit
        console.say(f"notice: the answer was cut: the context of {limit} tokens is full; {room}")
