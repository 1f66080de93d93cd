"""Code: coloured so that it can be read on light and dark, with nothing around it, so that it can be copied."""

import functools
import re
from typing import Any

from rich.style import Style
from rich.syntax import Syntax, SyntaxTheme
from rich.text import Text

from llmcli.chat.markdown.cells import fold_offsets

_STYLES = {
    "Token.Comment": Style(dim=True),
    "Token.Keyword": Style(color="magenta"),
    "Token.Operator.Word": Style(color="magenta"),
    "Token.Name.Builtin": Style(color="cyan"),
    "Token.Name.Function": Style(bold=True),
    "Token.Name.Class": Style(bold=True),
    "Token.Name.Decorator": Style(color="cyan"),
    "Token.Name.Tag": Style(color="magenta"),
    "Token.Literal.String": Style(color="green"),
    "Token.Literal.Number": Style(color="cyan"),
    "Token.Generic.Deleted": Style(color="red"),
    "Token.Generic.Inserted": Style(color="green"),
    "Token.Generic.Heading": Style(bold=True),
}
"""The terminal's own colours that are legible on both backgrounds, by kind of token."""
_LONGEST_CONTEXT = 2000
"""Characters of an open string or comment that are read again for every redraw."""


class _Theme(SyntaxTheme):
    def get_style_for_token(self, token_type: Any) -> Style:
        """The style of the nearest kind that has one."""
        return _style(str(token_type))

    def get_background_style(self) -> Style:
        """The terminal's own background."""
        return Style.null()


@functools.lru_cache(maxsize=256)
def _style(kind: str) -> Style:
    while kind:
        if kind in _STYLES:
            return _STYLES[kind]
        kind = kind.rpartition(".")[0]
    return Style.null()


@functools.lru_cache(maxsize=16)
def _syntax(name: str) -> Syntax | None:
    """A highlighter that keeps its lexer; None for a language that nobody knows."""
    lexer = Syntax("", name).lexer if name else None
    return Syntax("", lexer, theme=_Theme()) if lexer else None


def _name(info: str) -> str:
    return info.split(maxsplit=1)[0].strip("{}.").lower() if info.strip() else ""


def caption(info: str) -> str:
    """What an info string says beyond the language: the name of a file, most often."""
    name, _, more = info.strip().partition(" ")
    return more.strip() if re.fullmatch(r"[{.]*[\w+#-]*\}?", name) else info.strip()


def code_lines(info: str, context: str, code: str) -> list[Text]:
    """The lines of `code`, coloured as what follows `context` in the language that `info` names."""
    syntax = _syntax(_name(info))
    context, code = context.expandtabs(4), code.expandtabs(4)
    text = Text(context + code)
    if syntax is not None:
        coloured = syntax.highlight(context + code)[: len(text)]
        if coloured.plain == text.plain:
            text = coloured
    text = text[len(context) :]
    lines = text.split("\n", allow_blank=True)
    return list(lines)[: -1 if code.endswith("\n") or not code else None]


def fold(line: Text, width: int) -> list[Text]:
    """The rows of a line of code; together they are the line."""
    return list(line.divide(fold_offsets(line.plain, width)))


def lexing_context(info: str, code: str) -> str:
    """The end of `code` that a lexer must read to colour what follows: an open string or comment, else nothing."""
    syntax = _syntax(_name(info))
    if syntax is None or syntax.lexer is None:
        return ""
    start = len(code)
    for at, kind, _ in reversed(list(syntax.lexer.get_tokens_unprocessed(code))):
        if not str(kind).startswith(("Token.Literal.String", "Token.Comment")):
            break
        start = at
    return code[start:] if len(code) - start <= _LONGEST_CONTEXT else ""
