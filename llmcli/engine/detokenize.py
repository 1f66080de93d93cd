"""Ids to text, token by token: what is streamed equals the full decode, byte for byte."""

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
        self._emitted = ""

    def add(self, token_id: int) -> str:
        """The text that `token_id` completes: nothing while a character is still missing bytes."""
        self._ids.append(token_id)
        piece = self._step(token_id)
        self._emitted += piece
        return piece

    def _step(self, token_id: int) -> str:
        if self._stream is not None:
            try:
                return self._stream.step(self._backend, token_id) or ""
            except Exception:  # noqa: BLE001 - tokenizers raises a bare Exception when a decode is not an extension
                self._stream = None
        text = self._decode()
        return "" if text.endswith(_REPLACEMENT) else self._rest(text)

    def finish(self) -> str:
        """What was held back: at the end an incomplete character is shown as the full decode shows it."""
        rest = self._rest(self._decode())
        self._emitted += rest
        return rest

    def _decode(self) -> str:
        text: str = self._tokenizer.decode(self._ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    def _rest(self, text: str) -> str:
        return text[len(self._emitted) :] if text.startswith(self._emitted) else ""
