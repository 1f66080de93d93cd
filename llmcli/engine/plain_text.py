"""A prompt's text to ids, in which only the template's control tokens become control ids.

A tokenizer takes `<|im_end|>` for the control token wherever it stands, in the middle of a message as well, where it
would end the turn. Where a message spells such a token, a copy of the tokenizer encodes the prompt: one that knows the
control tokens by names that nobody can type. The template's own get these names first. It is one pass over the whole
text, so everything else is encoded as ever.
"""

import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

from tokenizers import AddedToken, Encoding, Tokenizer, models

from llmcli.engine.control import ControlTokens
from llmcli.engine.placeholder import Spans, new_name
from llmcli.errors import UsageError


def encode_text(tokenizer: Any, control: ControlTokens, text: str, typed: Spans, *, special: bool) -> list[int]:
    """Ids of `text`, whose spans `typed` spell control tokens and mean plain text.

    special: add the tokenizer's special tokens in front (what it would add behind ends a text, and is left out).
    Raises UsageError when the tokenizer has no ids for such text but the control token's.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return _encode_pieces(tokenizer, text, typed, special=special)
    if not typed:
        encoded = tokenizer(text, add_special_tokens=special, return_special_tokens_mask=True)
        ids, added = encoded.input_ids, encoded.special_tokens_mask
        if not _may_invent(backend, control) or _only_written(control, text, ids, added):
            return _without_end(ids, added)
    return _renamed(tokenizer, control).encode(text, typed, special=special)


def _without_end(ids: list[int], added: list[int]) -> list[int]:
    """`ids` up to the last one that stands for text: `added` is 1 where the tokenizer adds one by itself."""
    end = len(ids)
    while end and added[end - 1] and 0 in added:
        end -= 1
    return ids[:end]


def _encode_pieces(tokenizer: Any, text: str, typed: Spans, *, special: bool) -> list[int]:
    """The same for tokenizers written in Python, which encode a text piece by piece anyway."""
    ids: list[int] = []
    for piece, plain in _pieces(text, typed):
        ids += tokenizer.encode(piece, add_special_tokens=False, split_special_tokens=plain)
    if not special:
        return ids
    return _without_end(tokenizer.build_inputs_with_special_tokens(ids), tokenizer.get_special_tokens_mask(ids))


def _pieces(text: str, typed: Spans) -> list[tuple[str, bool]]:
    """`text` in pieces, each with whether it is one of the spans `typed`."""
    pieces: list[tuple[str, bool]] = []
    done = 0
    for start, end in typed:
        pieces += [(text[done:start], False), (text[start:end], True)]
        done = end
    return [(piece, plain) for piece, plain in [*pieces, (text[done:], False)] if piece]


def _may_invent(backend: Any, control: ControlTokens) -> bool:
    """Whether a normalizer can make a control token of text that is none (full-width letters, under NFKC)."""
    if backend.normalizer is None:
        return False
    return not isinstance(backend.model, models.BPE) or any(token.normalized for _, token in control.by_text.values())


def _only_written(control: ControlTokens, text: str, ids: list[int], added: list[int]) -> bool:
    """Whether the control ids are those that `text` spells."""
    known = control.ids
    made = Counter(i for i, by_itself in zip(ids, added, strict=True) if i in known and not by_itself)
    return not made - Counter(control.by_text[match[0]][0] for match in control.pattern.finditer(text))


class _Renamed:
    """A copy of a tokenizer that knows the control tokens by secret names only.

    `_gap` is a name to put between characters that must not be taken together; it leaves no id.
    """

    def __init__(self, tokenizer: Any, control: ControlTokens) -> None:
        self._control = control
        self._never = control.ids - {tokenizer.unk_token_id}
        self._names = {text: new_name() for text in control.by_text}
        self._gap = new_name()
        self._backend = _copy(tokenizer.backend_tokenizer, control, self._names, self._gap)
        self._ids: dict[int | None, int] = {
            self._backend.token_to_id(name): control.by_text[text][0] for text, name in self._names.items()
        }

    def encode(self, text: str, typed: Spans, *, special: bool) -> list[int]:
        """Ids of `text`; see `encode_text`. Where plain text gives a control id, its characters are encoded apart."""
        encoding = self._encode(text, typed, str, special=special)
        if self._culprit(encoding) is not None:
            encoding = self._encode(text, typed, self._gap.join, special=special)
        if (culprit := self._culprit(encoding)) is not None:
            raise UsageError(
                f"the prompt holds text that the model's tokenizer cannot tell from its control token {culprit!r}",
                "Write that place in another way.",
            )
        gap = self._backend.token_to_id(self._gap)
        kept = [(i, added) for i, added in zip(encoding.ids, encoding.special_tokens_mask, strict=True) if i != gap]
        return _without_end([self._ids.get(i, i) for i, _ in kept], [added for _, added in kept])

    def _encode(self, text: str, typed: Spans, spell: Callable[[str], str], *, special: bool) -> Encoding:
        renamed = (
            spell(piece) if plain else self._control.pattern.sub(lambda match: self._names[match[0]], piece)
            for piece, plain in _pieces(text, typed)
        )
        return self._backend.encode("".join(renamed), add_special_tokens=special)

    def _culprit(self, encoding: Encoding) -> str | None:
        """A control token that plain text has become."""
        pairs = zip(encoding.ids, encoding.special_tokens_mask, strict=True)
        return next((self._backend.id_to_token(i) for i, added in pairs if i in self._never and not added), None)


def _copy(backend: Tokenizer, control: ControlTokens, names: dict[str, str], gap: str) -> Tokenizer:
    """A copy of `backend` in which `names` stand for the control tokens, and the tokens' own texts for nothing."""
    copy = Tokenizer.from_str(backend.to_str())
    copy.no_truncation()
    copy.no_padding()
    tokens = [token for _, token in control.by_text.values()]
    copy.add_special_tokens([AddedToken(token.content, special=True, normalized=token.normalized) for token in tokens])
    copy.encode_special_tokens = True
    renamed = (AddedToken(names[t.content], lstrip=t.lstrip, rstrip=t.rstrip, normalized=False) for t in tokens)
    copy.add_tokens([*renamed, AddedToken(gap, normalized=False)])
    return copy


_copies: "weakref.WeakKeyDictionary[Any, _Renamed]" = weakref.WeakKeyDictionary()


def _renamed(tokenizer: Any, control: ControlTokens) -> _Renamed:
    """The copy of `tokenizer`, made when it is first needed: that takes about a second for a large vocabulary."""
    found = _copies.get(tokenizer)
    if found is None:
        found = _copies[tokenizer] = _Renamed(tokenizer, control)
    return found
