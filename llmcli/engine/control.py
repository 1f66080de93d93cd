"""Control tokens of a tokenizer, and the places where a text spells them."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ControlTokens:
    """Tokens that give a prompt its structure. `by_text`: each token's text to its id and its AddedToken.

    pattern: matches the longest of the texts at a place.
    """

    by_text: dict[str, tuple[int, Any]]
    pattern: re.Pattern[str]

    @property
    def ids(self) -> frozenset[int]:
        """The ids of all of them."""
        return frozenset(token_id for token_id, _ in self.by_text.values())


def control_tokens(tokenizer: Any, markers: Collection[str] = ()) -> ControlTokens:
    """The special tokens of `tokenizer`, and those of its other added tokens that `markers` names.

    A token may have a role (BOS, EOS …) and yet not be marked as special.
    """
    added = tokenizer.added_tokens_decoder.items()
    named = {*tokenizer.all_special_tokens, *markers}
    by_text = {
        token.content: (token_id, token)
        for token_id, token in added
        if (token.special or token.content in named) and token.content.strip()
    }
    return ControlTokens(by_text, _pattern(by_text))


def _pattern(texts: Collection[str]) -> re.Pattern[str]:
    """Finds the longest of `texts`. A tree of their letters: a list of a thousand alternatives is slow to search."""
    tree: dict[str, Any] = {}
    for text in texts:
        node = tree
        for letter in text:
            node = node.setdefault(letter, {})
        node[""] = {}
    return re.compile(_branch(tree) if tree else "(?!)")


def _branch(node: dict[str, Any]) -> str:
    ways = [re.escape(letter) + _branch(child) for letter, child in node.items() if letter]
    if not ways:
        return ""
    optional = "?" if "" in node else ""
    return ways[0] if len(ways) == 1 and not optional else f"(?:{'|'.join(ways)}){optional}"
