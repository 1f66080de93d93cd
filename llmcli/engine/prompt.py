"""A conversation to ids: chat template, then tokenizer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError

from llmcli.errors import ModelError, UsageError
from llmcli.inference import Message


@dataclass(frozen=True, slots=True)
class Rendered:
    """The text that goes to the tokenizer. `special`: whether the tokenizer still has to add its special tokens."""

    text: str
    special: bool


def has_template(tokenizer: Any) -> bool:
    """Whether the model has a chat template."""
    return bool(getattr(tokenizer, "chat_template", None))


def render(tokenizer: Any, messages: Sequence[Message]) -> Rendered:
    """The conversation as the model's chat template writes it, ready for the answer.

    A model without a template gets the bare texts. A template writes every special token itself, so the tokenizer
    adds none: exactly one BOS. Raises UsageError when the template refuses the conversation.
    """
    if not has_template(tokenizer):
        return Rendered("\n\n".join(m.content for m in messages), special=True)
    turns = [{"role": m.role, "content": m.content} for m in messages]
    try:
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    except TemplateError as error:
        hint = "Some templates know no system role: leave out --system."
        raise UsageError(f"the model's chat template refuses the conversation: {error}", hint) from error
    return Rendered(text, special=False)


def encode(tokenizer: Any, rendered: Rendered, vocab_size: int) -> tuple[int, ...]:
    """Ids of the rendered prompt.

    Raises UsageError for an empty prompt, ModelError when the tokenizer knows ids that the model does not.
    """
    ids = tuple(tokenizer(rendered.text, add_special_tokens=rendered.special).input_ids)
    if not ids:
        raise UsageError("the prompt is empty", "Give a text with -p, -f or on stdin.")
    if max(ids) >= vocab_size:
        raise ModelError(
            f"the tokenizer gives id {max(ids)}, but the model has embeddings for {vocab_size} ids only",
            "Tokenizer and weights do not belong together.",
        )
    return ids
