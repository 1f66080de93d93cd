"""What a model's chat template does with a conversation, found out once by rendering small ones."""

import re
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llmcli.engine.control import ControlTokens, control_tokens
from llmcli.errors import ModelError
from llmcli.inference import Message, Role

TEMPLATE_HINT = "The template lies beside the weights: chat_template.jinja, or chat_template in tokenizer_config.json."

_FOR_OTHER_USES = re.compile("tool|rag", re.IGNORECASE)
_SYSTEM, _FIRST, _ANSWER, _SECOND = "alpha1system", "beta2question", "gamma3answer", "delta4question"
"""Texts that no template writes by itself."""


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """How a model takes a conversation. `template` is None for a model that completes plain text.

    system_role: whether the template takes a system message and shows its text.
    parts: whether the template reads a message's content only as a list of typed parts.
    control: tokens that only the template may write. end_of_turn: the id that it writes after every answer, if one.
    """

    template: str | None
    control: ControlTokens
    system_role: bool = True
    parts: bool = False
    end_of_turn: int | None = None
    notices: tuple[str, ...] = ()


_known: "weakref.WeakKeyDictionary[Any, ChatFormat]" = weakref.WeakKeyDictionary()


def chat_format(tokenizer: Any) -> ChatFormat:
    """The chat format of `tokenizer`, which is not changed after loading. Raises ModelError for a malformed one."""
    found = _known.get(tokenizer)
    if found is None:
        found = _known[tokenizer] = _probe(tokenizer)
    return found


def apply(tokenizer: Any, template: str, messages: Sequence[Message], *, parts: bool, answer: bool = True) -> str:
    """The text that `template` makes of `messages`, up to where the `answer` begins; raises whatever it raises."""
    turns = [
        {"role": m.role, "content": [{"type": "text", "text": m.content}] if parts else m.content} for m in messages
    ]
    text: str = tokenizer.apply_chat_template(
        turns, chat_template=template, tokenize=False, add_generation_prompt=answer
    )
    return text


def fold_system(messages: Sequence[Message]) -> list[Message]:
    """The conversation without system messages: their texts go in front of the user message that follows."""
    folded: list[Message] = []
    waiting: list[str] = []
    for message in messages:
        if message.role == "system":
            waiting.append(message.content)
        elif message.role == "user":
            folded.append(Message("user", "\n\n".join([*waiting, message.content])))
            waiting = []
        else:
            folded.append(message)
    return [*folded, Message("user", "\n\n".join(waiting))] if waiting else folded


def _probe(tokenizer: Any) -> ChatFormat:
    template, notices = _choose(getattr(tokenizer, "chat_template", None))
    if template is None:
        return ChatFormat(None, control_tokens(tokenizer))
    ask = _Probe(tokenizer, template)
    turns = ask.render(("user", _FIRST), ("assistant", _ANSWER), ("user", _SECOND))
    system = ask.render(("system", _SYSTEM), ("user", _FIRST))
    works = ask.render(("user", _FIRST)) is not None
    markers = _turn_markers(tokenizer, (turns or "") + (system or ""))
    control = control_tokens(tokenizer, markers)
    return ChatFormat(
        template,
        control,
        system_role=not works or _SYSTEM in (system or ""),
        parts=ask.parts,
        end_of_turn=_end_of_turn(control, turns or "", ask.render(("user", _FIRST), ("assistant", _ANSWER), end=True)),
        notices=notices,
    )


def _choose(templates: Any) -> tuple[str | None, tuple[str, ...]]:
    """The template for a conversation without tools or documents, and what to say about the choice."""
    if not templates:
        return None, ()
    notices: tuple[str, ...] = ()
    chosen = templates
    if isinstance(templates, dict):
        names = sorted(templates)
        name = next((n for n in ("default", *names) if n in templates and not _FOR_OTHER_USES.search(n)), names[0])
        chosen = templates[name]
        if name != "default":
            notices = (f"the model has no default chat template: {name!r} is used, of {', '.join(names)}",)
    if not isinstance(chosen, str):
        raise ModelError(f"the model's chat template is no text but {chosen!r:.80}", TEMPLATE_HINT)
    return chosen, notices


class _Probe:
    """Renders small conversations; None for one that the template refuses."""

    def __init__(self, tokenizer: Any, template: str) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self.parts = False
        plain = self.render(("user", _FIRST))
        if plain is None or _FIRST not in plain:
            self.parts = True
            self.parts = _FIRST in (self.render(("user", _FIRST)) or "")

    def render(self, *turns: tuple[Role, str], end: bool = False) -> str | None:
        """What the template makes of `turns`; with `end` up to the end of the last one, not to the next answer."""
        messages = [Message(role, content) for role, content in turns]
        try:
            return apply(self._tokenizer, self._template, messages, parts=self.parts, answer=not end)
        except Exception:  # noqa: BLE001 - templates are programs; what fails here is said when a request needs it
            return None


def _turn_markers(tokenizer: Any, text: str) -> set[str]:
    """Added tokens that are not special and yet mark turns: bracketed, written by the template in `text`.

    Paired tags (<think> … </think>, <tool_call> … </tool_call>) are part of what models write, and no markers.
    """
    added = {token.content for token in tokenizer.added_tokens_decoder.values()}
    bracketed = (t for t in added if t.startswith(tuple("<[{(|")) and t.endswith(tuple(">]})|")))
    return {token for token in bracketed if token in text and not _pair(token, added)}


def _pair(tag: str, among: set[str]) -> bool:
    bracket, name = tag[:1], tag[1:]
    return f"{bracket}/{name}" in among or (name.startswith("/") and f"{bracket}{name[1:]}" in among)


def _end_of_turn(control: ControlTokens, turns: str, whole: str | None) -> int | None:
    """The id of the control token that follows an answer, in the middle of a conversation and at its end alike.

    Where the two differ (gpt-oss), the one in the middle also ends parts of an answer and must not stop it.
    """
    ends = (turns.partition(_ANSWER)[2], (whole or "").partition(_ANSWER)[2])
    first, last = (control.pattern.match(end.lstrip()) for end in ends)
    return control.by_text[first[0]][0] if first and last and first[0] == last[0] else None
