"""A conversation to ids: chat template, then tokenizer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError, TemplateSyntaxError

from llmcli.engine.failures import reason_of
from llmcli.engine.placeholder import Placeholders, Spans
from llmcli.engine.plain_text import encode_text
from llmcli.engine.template import TEMPLATE_HINT, apply, chat_format, fold_system
from llmcli.errors import ModelError, UsageError
from llmcli.inference import Message


@dataclass(frozen=True, slots=True)
class Rendered:
    """The text that goes to the tokenizer.

    special: whether the tokenizer still has to add its special tokens. typed: the spans of `text` that come from
    messages and look like control tokens.
    """

    text: str
    special: bool
    typed: Spans = ()


def render(tokenizer: Any, messages: Sequence[Message]) -> Rendered:
    """The conversation as the model's chat template writes it, ready for the answer.

    A model without a template gets the bare texts. A template writes every special token itself, so the tokenizer
    adds none: exactly one BOS. Where the template has no system role, system texts go into the first user message.
    Raises UsageError when the template refuses the conversation, ModelError when it cannot be used at all.
    """
    chat = chat_format(tokenizer)
    hidden = Placeholders(chat.control)
    turns = [Message(m.role, hidden.hide(m.content)) for m in messages]
    if chat.template is None:
        text, typed = hidden.show("\n\n".join(m.content for m in turns))
        return Rendered(text, special=True, typed=typed)
    turns = turns if chat.system_role else fold_system(turns)
    text, typed = hidden.show(_write(tokenizer, chat.template, turns, parts=chat.parts))
    if not text:
        raise ModelError("the model's chat template makes an empty prompt", TEMPLATE_HINT)
    return Rendered(text, special=False, typed=typed)


def _write(tokenizer: Any, template: str, turns: Sequence[Message], *, parts: bool) -> str:
    try:
        return apply(tokenizer, template, turns, parts=parts)
    except TemplateSyntaxError as error:
        raise ModelError(
            f"the model's chat template is no valid template: {reason_of(error)}", TEMPLATE_HINT
        ) from error
    except TemplateError as error:
        message = f"the model's chat template refuses the conversation: {reason_of(error)}"
        raise UsageError(message, TEMPLATE_HINT) from error
    except Exception as error:
        raise ModelError(f"the model's chat template fails: {reason_of(error)}", TEMPLATE_HINT) from error


def encode(tokenizer: Any, rendered: Rendered, vocab_size: int) -> tuple[int, ...]:
    """Ids of the rendered prompt. What messages spell of control tokens is encoded as text.

    Raises UsageError for an empty prompt and for text that is none or has no ids, ModelError when the tokenizer knows
    ids that the model does not.
    """
    _refuse_half_characters(rendered.text)
    control = chat_format(tokenizer).control
    ids = tuple(encode_text(tokenizer, control, rendered.text, rendered.typed, special=rendered.special))
    if not ids:
        raise UsageError("the prompt is empty", "Give a text with -p, -f or on stdin.")
    if max(ids) >= vocab_size:
        raise ModelError(
            f"the tokenizer gives id {max(ids)}, but the model has embeddings for {vocab_size} ids only",
            "Tokenizer and weights do not belong together.",
        )
    return ids


def _refuse_half_characters(text: str) -> None:
    """Surrogates stand for half a character, or for a byte of a text that is not UTF-8; a tokenizer takes neither."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the prompt holds U+{ord(text[error.start]):04X}, which is no character",
            "Save the text as UTF-8, or paste it again.",
        ) from error
