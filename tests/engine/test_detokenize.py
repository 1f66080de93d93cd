"""The law of streaming: the pieces of an answer are its full decode, byte for byte."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import byte_fallback_tokenizer, byte_tokenizer, wordpiece_tokenizer

from llmcli.engine.detokenize import Detokenizer

TOKENIZERS = {
    "byte-level": byte_tokenizer(),
    "byte-fallback": byte_fallback_tokenizer(),
    "wordpiece": wordpiece_tokenizer(),
}
TEXTS = {
    "emoji": "ok 👍🏽 family 👩‍👩‍👧‍👦 flag 🇰🇷!",
    "Hangul NFC": unicodedata.normalize("NFC", "안녕하세요, 반갑습니다."),
    "Hangul NFD": unicodedata.normalize("NFD", "안녕하세요, 반갑습니다."),
    "CJK": "日本語と漢字、𠮷野家。",
    "combining marks": unicodedata.normalize("NFD", "é ñ ǘ") + " Z\u0351\u036b\u0343a\u0334l\u0337go",
    "Arabic and Thai": "مرحبا สวัสดี",
    "run without spaces": "a" * 600 + "https://example.org/?q=%20&x=" + "Zm9v" * 50,
    "replacement character": "real � sign �� twice",
    "spaces": "  two  leading,   three inside \n\n and lines\t\n",
}


def stream(tokenizer, ids):
    detokenizer = Detokenizer(tokenizer)
    return [*(detokenizer.add(token_id) for token_id in ids), detokenizer.finish()]


def full(tokenizer, ids):
    return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def expected(kind, ids):
    """The full decode; for byte fallback, the complete characters and one U+FFFD for each byte of an incomplete one."""
    tokenizer = TOKENIZERS[kind]
    if kind != "byte-fallback":
        return full(tokenizer, ids)
    raw = b"".join(
        bytes([int(token[3:5], 16)]) if token.startswith("<0x") else token.replace("▁", " ").encode()
        for token in tokenizer.convert_ids_to_tokens(ids)
    )
    complete = next(n for n in range(len(raw), -1, -1) if raw[:n].decode(errors="ignore").encode() == raw[:n])
    return raw[:complete].decode().removeprefix(" ") + "\ufffd" * (len(raw) - complete)


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("name", TEXTS)
def test_stream_equals_full_decode_at_every_cut(kind, name):
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer(TEXTS[name], add_special_tokens=False).input_ids
    # A real U+FFFD looks like an incomplete character until more follows, so bytes cannot be told apart at a cut.
    ambiguous = kind == "byte-fallback" and "\ufffd" in TEXTS[name]
    for cut in range(len(ids) if ambiguous else max(0, len(ids) - 40), len(ids) + 1):
        assert "".join(stream(tokenizer, ids[:cut])) == expected(kind, ids[:cut])


@pytest.mark.parametrize("kind", ["byte-level", "wordpiece"])
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_stream_equals_full_decode_of_any_ids(kind, data):
    tokenizer = TOKENIZERS[kind]
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) + 20), max_size=30))
    assert "".join(stream(tokenizer, ids)) == full(tokenizer, ids)


@pytest.mark.parametrize("kind", ["byte-level", "byte-fallback"])
@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=40))
def test_stream_of_any_text_comes_back(kind, text):
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer(text, add_special_tokens=False).input_ids
    assert "".join(stream(tokenizer, ids)) == (text if kind == "byte-level" else text.replace("▁", " "))


def test_invalid_bytes_in_the_middle_lose_nothing_after_them():
    tokenizer = TOKENIZERS["byte-fallback"]
    vocab = tokenizer.get_vocab()
    ids = [
        vocab["a"],
        *(vocab[f"<0x{byte:02X}>"] for byte in "안".encode()),
        vocab["<0xE2>"],
        vocab["▁the"],
        vocab["a"],
    ]
    assert "".join(stream(tokenizer, ids)) == "a안� thea"


def test_an_incomplete_character_is_held_back_until_it_is_complete():
    tokenizer = TOKENIZERS["byte-level"]
    ids = tokenizer("안", add_special_tokens=False).input_ids
    assert stream(tokenizer, ids) == ["", "", "안", ""]
    assert stream(tokenizer, ids[:2]) == ["", "", "�"]


def test_text_without_spaces_appears_token_by_token():
    tokenizer = TOKENIZERS["byte-level"]
    ids = tokenizer("a" * 50, add_special_tokens=False).input_ids
    assert stream(tokenizer, ids) == ["a"] * 50 + [""]


def test_special_tokens_leave_no_text():
    tokenizer = TOKENIZERS["byte-level"]
    hello = tokenizer("hello", add_special_tokens=False).input_ids
    assert "".join(stream(tokenizer, [0, *hello, 1])) == "hello"


@pytest.mark.parametrize("name", TEXTS)
def test_a_tokenizer_without_a_fast_backend_streams_too(name):
    class Slow:
        def decode(self, ids, **_more):
            return full(TOKENIZERS["byte-level"], ids)

    ids = TOKENIZERS["byte-level"](TEXTS[name], add_special_tokens=False).input_ids
    assert "".join(stream(Slow(), ids)) == TEXTS[name]
