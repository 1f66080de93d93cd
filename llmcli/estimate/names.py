"""What people write for a model, and the name that they mean."""

import difflib
import re
from collections.abc import Iterable

_SUFFIXES = re.compile(r"(instruct|chat|it|hf|base)$")
_LETTERS = re.compile(r"[a-z]+")


def plain(name: str) -> str:
    """A name without its maker, without punctuation, case, and the words that say only how it was tuned.

    `Qwen3:8B`, `qwen-3-8b` and `Qwen/Qwen3-8B-Instruct` are all `qwen38b`.
    """
    bare = re.sub(r"[^a-z0-9]", "", name.rpartition("/")[2].lower()).removeprefix("meta")
    return _SUFFIXES.sub("", bare) or bare


def meant(written: str, known: Iterable[tuple[str, str]]) -> str | None:
    """The one name that is the same in `plain` letters, or whose repository is; None where none is, or more than one.

    known: names, each with itself and with its repository.
    """
    wanted = plain(written)
    found = {name for spelled, name in known if plain(spelled) == wanted}
    return found.pop() if len(found) == 1 else None


def like(written: str, known: Iterable[tuple[str, str]], count: int = 4) -> list[str]:
    """Names that begin with the same word, or whose repository does, the most alike first.

    Those that are alike in letters where none does. known: as in `meant`.
    """
    pairs, key = list(known), plain(written)
    word = _LETTERS.match(key)
    family = [pair for pair in pairs if word and plain(pair[0]).startswith(word[0])]
    if not family:
        return difflib.get_close_matches(written.lower(), [name for _, name in pairs], count, 0.6)
    family.sort(key=lambda pair: -difflib.SequenceMatcher(None, key, plain(pair[0])).ratio())
    return list(dict.fromkeys(name for _, name in family))[:count]
