"""Ids to text, token by token: what is streamed equals the full decode, byte for byte.

One case has to differ. Tokenizers that fall back to single bytes (as of Llama 2) decode a run of byte tokens as a
whole: when the last character of a run stays incomplete, their full decode turns the whole run into U+FFFD, characters
that have long been shown included. Here what was shown stays, and only the incomplete character becomes U+FFFD.
"""

from typing import Any

from tokenizers.decoders import DecodeStream

_REPLACEMENT = "\ufffd"


class Detokenizer:
    """Incremental decoding of one answer; special tokens are left out."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._backend: Any = getattr(tokenizer, "backend_tokenizer", None)
        self._stream = DecodeStream(skip_special_tokens=True) if self._backend is not None else None
        self._ids: list[int] = []
        self._pending: list[int] = []
        self._emitted = ""

    def add(self, token_id: int) -> str:
        """The text that `token_id` completes: nothing while a character is still missing bytes."""
        self._ids.append(token_id)
        self._pending.append(token_id)
        return self._emit(self._step(token_id) if self._stream is not None else self._extension())

    def finish(self) -> str:
        """What was held back: at the end an incomplete character is shown as U+FFFD."""
        return self._emit(self._rest())

    def _emit(self, piece: str) -> str:
        if piece:
            self._emitted += piece
            self._pending.clear()
        return piece

    def _step(self, token_id: int) -> str:
        try:
            return (self._stream and self._stream.step(self._backend, token_id)) or ""
        except Exception:  # noqa: BLE001 - tokenizers raises a bare Exception when bytes of a run turn out invalid
            self._stream = DecodeStream(ids=list(self._pending), skip_special_tokens=True)
            return self._decode(self._pending)

    def _extension(self) -> str:
        """The same for tokenizers without a fast backend, by decoding everything anew."""
        rest = self._rest()
        return "" if rest.endswith(_REPLACEMENT) else rest

    def _rest(self) -> str:
        text = self._decode(self._ids)
        return text[len(self._emitted) :] if text.startswith(self._emitted) else self._decode(self._pending)

    def _decode(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text
