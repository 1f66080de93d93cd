"""What a person should know of a model's tokenizer before talking to the model."""

from collections.abc import Iterator
from typing import Any

from llmcli.engine.loaded import named_eos_ids
from llmcli.engine.template import ChatFormat, chat_format
from llmcli.units import some


def tokenizer_notices(model: Any, tokenizer: Any) -> tuple[str, ...]:
    """Notices about template, ends of answers and ids that the model does not have."""
    chat = chat_format(tokenizer)
    vocab_size = model.config.get_text_config(decoder=True).vocab_size
    return (
        *_template(chat),
        *_ends(chat, tokenizer, named_eos_ids(model, tokenizer)),
        *_beyond(chat, tokenizer, vocab_size),
    )


def _template(chat: ChatFormat) -> Iterator[str]:
    if chat.template is None:
        yield "the model has no chat template: the prompt is completed as plain text"
    yield from chat.notices


def _ends(chat: ChatFormat, tokenizer: Any, named: frozenset[int]) -> Iterator[str]:
    added = tokenizer.added_tokens_decoder
    known = range(len(tokenizer))
    for token_id in sorted(named - added.keys()):
        if added and token_id in known:
            text = tokenizer.decode([token_id])
            yield f"the model's files name token {token_id}, the text {text!r}, as an end: an answer ends there"
    end = chat.end_of_turn
    if end is not None and end not in named:
        files = ", ".join(map(str, sorted(named))) or "none"
        yield (
            f"an answer ends at {added[end].content!r} (token {end}) as well, which the chat template writes after "
            f"every answer; the model's files name only {files}"
        )


def _beyond(chat: ChatFormat, tokenizer: Any, vocab_size: int) -> Iterator[str]:
    """Control tokens are never made from a message, so only other tokens can be met in one."""
    added = tokenizer.added_tokens_decoder
    beyond = [token.content for i, token in sorted(added.items()) if i >= vocab_size]
    if met := [text for text in beyond if text not in chat.control.by_text]:
        yield (
            f"the tokenizer knows tokens that the model has no embeddings for: {some(met)}; "
            "a message that holds one is refused"
        )
