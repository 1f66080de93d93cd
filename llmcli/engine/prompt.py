"""A conversation to ids: chat template, then tokenizer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError, TemplateSyntaxError

from llmcli.engine.failures import reason_of
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
    except TemplateSyntaxError as error:
        raise ModelError(f"the model's chat template is no valid template: {error}", _TEMPLATE_HINT) from error
    except TemplateError as error:
        system = any(m.role == "system" for m in messages)
        hint = "Some templates know no system role: leave out --system." if system else _TEMPLATE_HINT
        raise UsageError(f"the model's chat template refuses the conversation: {error}", hint) from error
    except Exception as error:
        raise ModelError(f"the model's chat template fails: {reason_of(error)}", _TEMPLATE_HINT) from error
    if not text:
        raise ModelError("the model's chat template makes an empty prompt", _TEMPLATE_HINT)
    return Rendered(text, special=False)


_TEMPLATE_HINT = "The template lies beside the weights: chat_template.jinja, or chat_template in tokenizer_config.json."


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
