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
    bare = re.sub(r"[^a-z0-9]", "", name.rpartition("/")[2].lower())
    return _SUFFIXES.sub("", bare) or bare


def meant(written: str, known: Iterable[str]) -> str | None:
    """The one name among `known` that is the same in `plain` letters; None where there is none, or more than one."""
    wanted = plain(written)
    found = {name for name in known if plain(name) == wanted}
    return found.pop() if len(found) == 1 else None


def like(written: str, known: Iterable[str], count: int = 4) -> list[str]:
    """Names that begin with the same word, the most alike first; those that are alike in letters where none does."""
    names = list(known)
    word = _LETTERS.match(plain(written))
    family = [name for name in names if word and plain(name).startswith(word[0])]
    if family:
        key = plain(written)
        return sorted(family, key=lambda name: -difflib.SequenceMatcher(None, key, plain(name)).ratio())[:count]
    return difflib.get_close_matches(written.lower(), names, count, 0.6)
