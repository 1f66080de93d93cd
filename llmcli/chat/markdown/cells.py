"""How many cells of a terminal text takes, and where it may break."""
# ruff: noqa: RUF001 - punctuation of Chinese and Japanese is what this is about

import functools
import re
from collections.abc import Iterator

from rich.cells import get_character_cell_size
from rich.text import Text

_HAN = "\u2e80-\u2fff\u3005-\u3007\u3021-\u303f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_CLOSING = "、。，．！？：；）」』】〉》〕～ー々％…"
_OPENING = "（「『【〈《〔"
_CHUNK = re.compile(
    rf"[{_OPENING}]*(?:[{_CLOSING}]+|[^\S\n]+|(?:[{_HAN}]|[^\s{_HAN}{_OPENING}{_CLOSING}]+)[{_CLOSING}]*)\s*|\S+\s*"
)
"""A word, or one Han or Kana character, with the punctuation that stays with it: lines break between these."""

_JOINER, _EMOJI_STYLE = "\u200d", "\ufe0f"
_UNSURE = re.compile(
    "[\u00ad\u0300-\u036f\u1160-\u11ff\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2600-\u27bf\ufe00-\ufe0f"
    "\U0001f000-\U0001ffff\U000e0000-\U000e0fff]"
)
"""Characters that terminals give different widths."""
_REGIONAL = range(0x1F1E6, 0x1F200)
_FLAG_LETTERS = "".join(map(chr, _REGIONAL))
_SKIN = range(0x1F3FB, 0x1F400)


def cells(text: str) -> int:
    """The most cells that any terminal gives to `text`: parts of a joined emoji count each."""
    return len(text) if text.isascii() else sum(map(_cells, text))


@functools.lru_cache(maxsize=4096)
def _cells(character: str) -> int:
    if character in {_EMOJI_STYLE, "\u00ad"}:
        return 1
    return 2 if ord(character) in _REGIONAL else get_character_cell_size(character)


def is_sure(text: str) -> bool:
    """Whether every terminal gives `text` the same width."""
    return text.isascii() or not (_UNSURE.search(text) or any(_cells(character) == 0 for character in text))


def room_for(text: str, width: int) -> int:
    """The cells of a row of `width` that `text` may take: some terminals wrap before a mark that would take none."""
    return width if is_sure(text) else width - 1


def clusters(text: str) -> Iterator[str]:
    """What must stay together: a character with its marks, a joined emoji, a flag."""
    start = 0
    for at in range(1, len(text)):
        if not _stays(text, at):
            yield text[start:at]
            start = at
    if text:
        yield text[start:]


def _cluster_start(text: str, at: int) -> int:
    while 0 < at < len(text) and _stays(text, at):
        at -= 1
    return at


def border_before(text: str, at: int) -> int:
    """The last place up to `at` where a row may end: inside of no cluster, and before no closing punctuation."""
    while 0 < at < len(text) and (_stays(text, at) or text[at] in _CLOSING):
        at -= 1
    return at


def _stays(text: str, at: int) -> bool:
    here, before = text[at], text[at - 1]
    if here.isascii() and before != _JOINER:
        return False
    if ord(here) in _REGIONAL:
        flags = len(text[:at]) - len(text[:at].rstrip(_FLAG_LETTERS))
        return flags % 2 == 1
    return _cells(here) == 0 or here == _EMOJI_STYLE or before == _JOINER or ord(here) in _SKIN


def fold_offsets(plain: str, width: int) -> list[int]:
    """Where `plain` (one line) breaks when it breaks only where the row is full."""
    width = room_for(plain, width)
    if cells(plain) <= width:
        return []
    offsets: list[int] = []
    at = used = 0
    for cluster in clusters(plain):
        size = cells(cluster)
        if used and used + size > width:
            offsets.append(at)
            used = 0
        used += size
        at += len(cluster)
    return offsets


def wrap_offsets(plain: str, width: int) -> list[int]:
    """Where `plain` (one line) breaks: between words, before Han and Kana, and inside of what is too long."""
    width = room_for(plain, width)
    if cells(plain) <= width:
        return []
    offsets: list[int] = []
    used = 0
    for match in _CHUNK.finditer(plain):
        size = cells(match[0].rstrip())
        if used and size and used + size > width:
            start = _cluster_start(plain, match.start())
            offsets.append(start)
            used = cells(plain[start : match.start()])
        if size > width:
            folds = fold_offsets(match[0], width)
            offsets += [match.start() + fold for fold in folds]
            used = cells(match[0][folds[-1] :]) if folds else size
        else:
            used += cells(match[0])
    return offsets


def wrap(text: Text, width: int) -> list[Text]:
    """Rows of at most `width` cells, without spaces at their ends; line breaks stay."""
    rows: list[Text] = []
    if "\t" in text.plain:
        text = text.copy()
        text.expand_tabs(4)
    for line in text.split("\n", allow_blank=True):
        rows += line.divide(wrap_offsets(line.plain, width))
    for row in rows:
        row.rstrip()
    return rows
