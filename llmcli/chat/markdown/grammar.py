r"""The dialect: CommonMark and tables, except where CommonMark hides what a model wrote.

Not there: raw HTML (a `<think>` is text to read), reference definitions and autolinks (both drop characters), setext
headings (`---` under a text is a rule). There, as they are: LaTeX between `\(…\)`, `\[…\]` and `$$…$$`, `2*3*4`, and
`__init__`.
"""

import functools
import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, blockquote, list_block
from markdown_it.rules_inline import StateInline, emphasis
from markdown_it.tree import SyntaxTreeNode

CONTINUED = "\ufdd0"
"""A noncharacter, never shown: stands where a block goes on whose beginning is on the screen already."""

_MAX_DEPTH = 24
"""Containers nested deeper are text: the parser's own limit drops what is beyond it."""
_MAX_NESTING = 200

_MATH = re.compile(r"\\\(.+?\\\)|\\\[.+?\\\]|\$\$.+?\$\$|\\[()\[\]]", re.DOTALL)

_UNSPACED = re.compile("[\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u3400-\u9fff\uac00-\ud7ff\uf900-\ufaff]")
"""Letters of scripts that put no space between a word in bold and what belongs to it."""
_DUNDER = re.compile(r"__[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*__(?!\w)")


def _math(state: StateInline, silent: bool) -> bool:
    match = _MATH.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        lines = match[0].split("\n")
        for number, line in enumerate(lines):
            if number:
                state.push("softbreak", "br", 0)
            state.push("text", "", 0).content = line
    state.pos = match.end()
    return True


def _times(state: StateInline, silent: bool) -> bool:
    """A single star between two ASCII letters or digits multiplies; it emphasizes nothing."""
    source, at = state.src, state.pos
    if source[at] != "*" or not 0 < at < state.posMax - 1:
        return False
    before, after = source[at - 1], source[at + 1]
    if not (before.isascii() and before.isalnum() and after.isascii() and after.isalnum()):
        return False
    if not silent:
        state.pending += "*"
    state.pos += 1
    return True


def _dunder(state: StateInline, silent: bool) -> bool:
    """`__init__` is a name of Python; models write bold with stars."""
    match = _DUNDER.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        state.pending += match[0]
    state.pos = match.end()
    return True


def _emphasis(state: StateInline, silent: bool) -> bool:
    """Stars as in CommonMark, except that `**"word"**` also ends before Hangul, Han and Kana, which need no space."""
    start, first = state.pos, len(state.delimiters)
    if not emphasis.tokenize(state, silent):
        return False
    before, after = state.src[max(0, start - 1) : start], state.src[state.pos : state.pos + 1]
    if state.src[start] == "*" and before.strip() and after.strip():
        for delimiter in state.delimiters[first:]:
            delimiter.open = delimiter.open or bool(_UNSPACED.match(before))
            delimiter.close = delimiter.close or bool(_UNSPACED.match(after))
    return True


def _blockquote(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    return state.level < _MAX_DEPTH and blockquote(state, start, end, silent)


def _list(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    return state.level < _MAX_DEPTH and list_block(state, start, end, silent)


class _Parser(MarkdownIt):
    def normalizeLink(self, url: str) -> str:  # noqa: N802 - the library's name
        """The address as the model wrote it."""
        return url


def _parser() -> MarkdownIt:
    parser = _Parser("commonmark", {"html": False, "maxNesting": _MAX_NESTING}).enable("table")
    parser.disable(["reference", "lheading", "autolink"])
    parser.block.ruler.at("blockquote", _blockquote, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    parser.block.ruler.at("list", _list, {"alt": ["paragraph", "reference", "blockquote"]})
    parser.inline.ruler.at("emphasis", _emphasis)
    parser.inline.ruler.before("escape", "math", _math)
    parser.inline.ruler.before("emphasis", "times", _times)
    parser.inline.ruler.before("emphasis", "dunder", _dunder)
    return parser


@functools.cache
def _whole() -> MarkdownIt:
    return _parser()


@functools.cache
def _blocks_only() -> MarkdownIt:
    parser = _parser()
    parser.core.ruler.disable(["inline", "text_join"])
    return parser


def parse(source: str) -> SyntaxTreeNode:
    """The tree of blocks, with their inline markup."""
    return SyntaxTreeNode(_whole().parse(source))


def parse_blocks(source: str) -> SyntaxTreeNode:
    """The tree of blocks alone, several times faster."""
    return SyntaxTreeNode(_blocks_only().parse(source))


def span(node: SyntaxTreeNode) -> tuple[int, int]:
    """The lines of the source that a block covers: first, one past the last."""
    return node.map or (0, 0)
