"""Markdown that arrives token by token, on a terminal.

    stream    MarkdownStream: text in, screen out; when to redraw
    blocks    which part of the text is finished, whatever follows
    cuts      where an unfinished block that is too tall can be cut, and what its rest has to remember
    grammar   the dialect: CommonMark and tables, but every character that is no markup stays visible
    rows      parsed Markdown → the rows of a terminal; codeblock and table are its larger elements
    cells     how wide text is, and where it may break
    live      the rows that can still change, and the fewest bytes that change them

`grammar`, `blocks` and `cuts` are pure; `rows` and what is below it import rich, so the package is imported late.
"""
