"""Which part of a growing Markdown text is finished, and what the rows of a terminal say."""
# ruff: noqa: RUF001 - Chinese has punctuation of its own

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmcli.chat.markdown.blocks import Blocks
from llmcli.chat.markdown.cells import cells, clusters, wrap_offsets
from llmcli.chat.markdown.codeblock import lexing_context
from llmcli.chat.markdown.rows import ASCII, Glyphs, render

FRAGMENTS = st.sampled_from(
    ["word", " ", "  ", "\n", "\n\n", "\n  ", "\n    ", "- ", "1. ", "> ", "# ", "```\n", "~~~", "*", "**", "`", "_",
     "|", "| a | b |\n|---|---|\n", "---\n", "[a](b)", "<think>", "한글", "漢字。", "\t", "\\", "$$", "&amp;", "x" * 90]
)  # fmt: skip
DOCUMENTS = st.lists(FRAGMENTS, max_size=40).map("".join)


def rows(source, width=60, glyphs=None):
    return [row.text.plain for row in render(source, width, glyphs or Glyphs()).rows]


def fed(pieces):
    blocks = Blocks()
    finished = [block for piece in pieces for block in blocks.add(piece)]
    return finished, blocks.rest


@given(DOCUMENTS, st.data())
def test_pieces_do_not_matter_and_nothing_is_lost(text, data):
    borders = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    pieces = [text[start:end] for start, end in zip([0, *borders], [*borders, len(text)], strict=True)]
    finished, rest = fed(pieces)
    assert (finished, rest) == fed([text])
    assert "".join(block.text for block in finished) + rest == text


@given(DOCUMENTS, DOCUMENTS)
def test_what_follows_does_not_change_what_is_finished(text, more):
    finished, _ = fed([text])
    assert fed([text + more])[0][: len(finished)] == finished


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        ("a paragraph\n", []),
        ("a paragraph\n\n", ["a paragraph\n\n"]),
        ("# A heading\n", ["# A heading\n"]),
        ("text\n---\nmore", ["text\n---\n"]),
        ("```py\nx\n\ny\n", []),
        ("```py\nx\n```\n", ["```py\nx\n```\n"]),
        ("````\n```\n", []),
        ("- a\n\n- b\n\n", []),
        ("- a\n\n- b\n\nend", []),
        ("- a\n\n- b\n\nend\n", ["- a\n\n- b\n\n"]),
        ("- ```\n  a\n\n\n  b\n", []),
        ("> a\n>\n> b\n", []),
        ("| a |\n|---|\n| 1 |\n", []),
        ("| a |\n|---|\n| 1 |\n\n", ["| a |\n|---|\n| 1 |\n\n"]),
    ],
)
def test_what_is_finished(text, finished):
    assert [block.text for block in fed([text])[0]] == finished


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("Roses are red,\nviolets are blue.", ["Roses are red,", "violets are blue."]),
        ("<think>\nhm\n</think>", ["<think>", "hm", "</think>"]),
        ("<div>a</div> and vector<std::string>", ["<div>a</div> and vector<std::string>"]),
        ("2 * 3 * 4 = 2*3*4", ["2 * 3 * 4 = 2*3*4"]),
        ("__init__ and `__init__`", ["__init__ and __init__"]),
        ("$x_1$ is \\( a_1 * b_1 * c \\)", ["$x_1$ is \\( a_1 * b_1 * c \\)"]),
        ("[1]: http://x", ["[1]: http://x"]),
        ("see [it](http://x) <http://y>", ["see it (http://x) <http://y>"]),
        ('[http://x](http://x) [a](b "c")', ['http://x a (b "c")']),
        ("[x](javascript:alert(1))", ["[x](javascript:alert(1))"]),
        ("a ![pic](p.png) b", ["a pic (p.png) b"]),
        ("3. three\n4. four", ["3. three", "4. four"]),
        ("1. one\n1. two", ["1. one", "2. two"]),
        ("- a\n  - b\n\n  c\n- d", ["• a", "  • b", "", "  c", "• d"]),
        ("- [ ] to do", ["• [ ] to do"]),
        ("text\n---\nmore", ["text", "─" * 40, "more"]),
        ("# Title\ntext", ["Title", "text"]),
        ("#", ["#"]),
        ("|", ["|"]),
        ("> a\n> b", ["│ a", "│ b"]),
        ("    four", ["    four"]),
        ("```\na\n\n  b\n```", ["a", "", "  b"]),
        ("```python\nunclosed", ["unclosed"]),
        ("```python app.py\nx\n```", ["app.py", "x"]),
        ("```go\n\tx\n```", ["    x"]),
        ("**open and `open", ["**open and `open"]),
        ("[bold]not rich[/bold] :smile:", ["[bold]not rich[/bold] :smile:"]),
        ("a  \nb   ", ["a", "b"]),
        ("| a | n |\n|---|--:|\n| x | 1 |", ["a      n", "───  ───", "x      1"]),
        ("| a |\n|---|\n| x | lost? |", ["a", "─" * 9, "x | lost?"]),
    ],
)
def test_what_is_shown(source, shown):
    assert rows(source) == shown


def test_a_table_wider_than_the_window_wraps_in_its_cells():
    source = "| name | what it is |\n|---|---|\n| cache | keys and values of every layer |"
    assert rows(source, 24) == [
        "name   what it is", "─────  ─────────────────", "cache  keys and values", "       of every layer",
    ]  # fmt: skip


def test_a_table_of_too_many_columns_becomes_records():
    source = "| a | b | c |\n|---|---|---|\n| 1 | 2 | 3 |\n| 4 | 5 | 6 |"
    assert rows(source, 18) == ["a: 1", "b: 2", "c: 3", "", "a: 4", "b: 5", "c: 6"]


def test_without_unicode_our_own_characters_are_ascii():
    assert all(row.isascii() for row in rows("- a\n\n> b\n\n---\n\n| c |\n|---|\n| d |", glyphs=ASCII))


@pytest.mark.parametrize("source", [">" * 300 + " deep", "- " * 300 + "deep", "[" * 300 + "deep", "*" * 300 + "deep"])
def test_nesting_without_end_is_text(source):
    assert "deep" in "".join(rows(source, 80))


@given(DOCUMENTS, st.integers(4, 60))
def test_no_row_is_wider_than_the_window(text, width):
    assert all(cells(row) <= max(width, 4) for row in rows(text, width))


@given(st.text(st.sampled_from("ab \u0301漢字、。（）한e\u200d👩🏽🇰🇷\ufe0f"), max_size=60), st.integers(10, 20))
def test_rows_break_between_clusters_only(line, width):
    borders, at = {0}, 0
    for cluster in clusters(line):
        at += len(cluster)
        borders.add(at)
    assert set(wrap_offsets(line, width)) <= borders


def test_chinese_wraps_anywhere_but_before_closing_punctuation():
    assert rows("Python 是一种解释型语言，简单。", 12) == ["Python 是一", "种解释型语", "言，简单。"]


@pytest.mark.parametrize("source", ['**"강조"**는 A', "**강조**는 A", "는**(강조)** A", "这是**“强调”**的 A"])
def test_bold_needs_no_space_beside_korean_and_chinese(source):
    assert "*" not in rows(source)[0]


def test_korean_wraps_at_spaces():
    assert rows("디코딩 단계에서 저장해 둡니다", 16) == ["디코딩 단계에서", "저장해 둡니다"]


@pytest.mark.parametrize(
    ("code", "context"), [('x = 1\ny = """open\n', '"""open\n'), ("x = 1\n", ""), ("# said\n", ""), ("# say", "# say")]
)
def test_code_that_goes_on_after_a_cut_keeps_its_colours(code, context):
    assert lexing_context("python", code) == context


def test_no_library_of_the_screen_is_loaded_before_it_is_needed():
    code = "import sys, llmcli.chat.screen; print([n for n in ('rich', 'markdown_it', 'pygments') if n in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == "[]"
