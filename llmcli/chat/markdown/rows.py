"""Parsed Markdown to the rows of a terminal.

markdown-it parses, rich styles and colours. rich's own Markdown class is not used: it drops HTML and the addresses of
images, joins the lines of a paragraph, and cuts off what is wider than a cell or the window.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from markdown_it.tree import SyntaxTreeNode
from rich.style import Style
from rich.text import Text

from llmcli.chat.markdown.cells import cells, is_sure, room_for, wrap
from llmcli.chat.markdown.codeblock import caption, code_lines, fold
from llmcli.chat.markdown.cuts import split_code
from llmcli.chat.markdown.grammar import CONTINUED, parse, span
from llmcli.chat.markdown.table import Table

_BOLD, _ITALIC, _DIM = Style(bold=True), Style(italic=True), Style(dim=True)
_CODE = Style(bold=True, color="cyan")
_ADDRESS = Style(underline=True)
_TITLE = Style(bold=True, underline=True)
_NARROWEST = 6
"""Cells that a block inside of a list or quotation has at least; below that nothing is indented."""
_RULE_WIDTH = 40


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters that are ours; each is one cell wide."""

    bullet: str = "•"
    bar: str = "│"
    rule: str = "─"


ASCII = Glyphs("-", "|", "-")


@dataclass(frozen=True, slots=True)
class Row:
    """One row. joined: it goes on where the full row before it ends, as one line to copy."""

    text: Text
    joined: bool = False


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a source looks like.

    prose: its last row ends in the plain text of a paragraph, which grows at its end. table: it ends in a table.
    """

    rows: list[Row]
    prose: bool = False
    table: bool = False


def render(source: str, width: int, glyphs: Glyphs, *, cut: bool = False) -> Sheet:
    """The rows of `source`, none wider than `width` cells; blank rows between blocks where the source has them.

    cut: the last block goes on after `source`.
    """
    tree = parse(source)
    rows = _Renderer(source.split("\n"), glyphs, cut=cut).blocks(tree.children, width)
    fitting = [part for row in rows for part in _fitted(row, width)]
    ends_in_table = bool(tree.children) and tree.children[-1].type == "table"
    return Sheet(fitting, _ends_in_prose(tree, fitting), ends_in_table)


def table_widths(node: SyntaxTreeNode, source: str, line: int, width: int) -> list[int] | None:
    """The cells of the columns of a table in `source` when only its rows before `line` count; see `Table.widths`."""
    return Table(node, source.split("\n")[:line], width, _inline, "", more=True).widths()


def _fitted(row: Row, width: int) -> list[Row]:
    """A row that no terminal would wrap: one that some terminal shows wider than it is meant is folded."""
    if cells(row.text.plain) <= room_for(row.text.plain, width):
        return [row]
    return [Row(text) for text in fold(row.text, width)]


def _ends_in_prose(tree: SyntaxTreeNode, rows: Sequence[Row]) -> bool:
    node, kinds = tree, set()
    while node.children:
        node = node.children[-1]
        kinds.add(node.type)
    if "paragraph" not in kinds or node.type != "text" or not rows:
        return False
    line = node.content.rpartition("\n")[2]
    last = rows[-1].text
    styled = any(part.end >= len(last.plain) for part in last.spans if part.style)
    return any(map(str.isalpha, line)) and not styled


class _Renderer:
    def __init__(self, lines: Sequence[str], glyphs: Glyphs, *, cut: bool) -> None:
        self._lines = lines
        self._cut = cut
        self._glyphs = glyphs

    def blocks(self, nodes: Sequence[SyntaxTreeNode], width: int) -> list[Row]:
        rows: list[Row] = []
        for node in nodes:
            shown = self._block(node, width)
            if shown and rows and self._follows_blank(node):
                rows.append(Row(Text()))
            rows += shown
        return rows

    def _follows_blank(self, node: SyntaxTreeNode) -> bool:
        before = span(node)[0] - 1
        return before >= 0 and not self._lines[before].strip(" \t>")

    def _block(self, node: SyntaxTreeNode, width: int) -> list[Row]:
        shows = {
            "paragraph": self._text,
            "heading": self._text,
            "fence": self._code,
            "code_block": self._code,
            "blockquote": self._quote,
            "bullet_list": self._list,
            "ordered_list": self._list,
            "table": self._table,
            "hr": self._rule,
        }
        return shows[node.type](node, width)

    def _rule(self, _node: SyntaxTreeNode, width: int) -> list[Row]:
        return [Row(Text(self._glyphs.rule * min(width, _RULE_WIDTH), _DIM))]

    def _table(self, node: SyntaxTreeNode, width: int) -> list[Row]:
        more = self._cut and not any(self._lines[span(node)[1] :])
        table = Table(node, self._lines, width, _inline, self._glyphs.rule, more=more)
        return [Row(line) for line in table.lines()]

    def _quote(self, node: SyntaxTreeNode, width: int) -> list[Row]:
        inside = self.blocks(node.children, _inner(width, 2)) or [Row(Text())]
        bar = Text().append(f"{self._glyphs.bar} ", _DIM)
        return _indented(inside, bar, bar, width)

    def _text(self, node: SyntaxTreeNode, width: int) -> list[Row]:
        text = _inline(node)
        if text.plain.startswith(CONTINUED):
            text = text[len(text) - len(text.plain[1:].removeprefix("\n").lstrip(" ")) :]
            if not text.plain.strip():
                return []
        elif node.type == "heading":
            text = text if text.plain.strip() else Text(node.markup)
            text.stylize(_TITLE if node.tag == "h1" else _BOLD)
        return [Row(line) for line in wrap(text, width)]

    def _code(self, node: SyntaxTreeNode, width: int) -> list[Row]:
        context, code = split_code(node.content)
        indent = Text("    " if node.type == "code_block" else "")
        named = caption(node.info) if CONTINUED not in node.content else ""
        rows = [Row(line) for line in wrap(Text(named, _DIM), width)] if named else []
        for line in code_lines(node.info, context, code):
            parts = fold(line, _inner(width, len(indent)))
            for number, part in enumerate(parts):
                before = parts[number - 1].plain if number else ""
                rows.append(Row(part, joined=bool(number) and cells(before) == width and is_sure(before)))
        return _indented(rows, indent, indent, width) if indent else rows

    def _list(self, node: SyntaxTreeNode, width: int) -> list[Row]:
        number = int(node.attrs.get("start", 1))
        rows: list[Row] = []
        for count, item in enumerate(node.children):
            ordered = node.type == "ordered_list"
            mark = Text(f"{number + count}{item.markup} " if ordered else f"{self._glyphs.bullet} ")
            indent = Text(" " * len(mark))
            inside = self.blocks(item.children, _inner(width, len(mark)))
            goes_on = _goes_on(item)
            if not inside and not goes_on:
                inside = [Row(Text())]
            if inside and rows and self._follows_blank(item):
                rows.append(Row(Text()))
            rows += _indented(inside, indent if goes_on else mark, indent, width)
        return rows


def _goes_on(item: SyntaxTreeNode) -> bool:
    first = item.children[0] if item.children else None
    if first is None or first.type != "paragraph" or not first.children:
        return False
    return first.children[0].content.startswith(CONTINUED)


def _inner(width: int, indent: int) -> int:
    return width - indent if width - indent >= _NARROWEST else width


def _indented(rows: Sequence[Row], first: Text, rest: Text, width: int) -> list[Row]:
    """`rows` after a mark; in a window too narrow for that, under it."""
    if width - len(first) < _NARROWEST:
        return [Row(Text(first.plain.rstrip())), *rows] if rows and first.plain.strip() else list(rows)
    indented = []
    for number, row in enumerate(rows):
        text = (rest if number else first).copy().append_text(row.text)
        text.rstrip()
        indented.append(Row(text))
    return indented


def _inline(node: SyntaxTreeNode) -> Text:
    """The text of a paragraph, a heading or a cell, with the line breaks that the model wrote."""
    text = Text()
    for child in node.children:
        _append(text, child.children, Style.null())
    return text


def _append(text: Text, nodes: Sequence[SyntaxTreeNode], style: Style) -> None:
    for node in nodes:
        if node.type in {"softbreak", "hardbreak"}:
            text.append("\n")
        elif node.type == "em":
            _append(text, node.children, style + _ITALIC)
        elif node.type == "strong":
            _append(text, node.children, style + _BOLD)
        elif node.type == "code_inline":
            text.append(node.content, style + _CODE)
        elif node.type in {"link", "image"}:
            _append_link(text, node, style)
        else:
            text.append(node.content, style or None)


def _append_link(text: Text, node: SyntaxTreeNode, style: Style) -> None:
    """A link's text, then its address and title: terminals get no hyperlinks, whose address nobody would see."""
    start = len(text)
    _append(text, node.children, style)
    address = str(node.attrs.get("href") or node.attrs.get("src") or "")
    title = f' "{node.attrs["title"]}"' if node.attrs.get("title") else ""
    if title or text.plain[start:] != address:
        text.append(" (" if len(text) > start else "(", style or None)
        text.append(address, style + _ADDRESS)
        text.append(f"{title})", style or None)
