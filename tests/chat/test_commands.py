"""What a typed line asks for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmcli.chat.commands import COMMANDS, Command, Surplus, Text, Unknown, help_rows, parse


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("/exit", Command("/exit", "")),
        ("  /EXIT ", Command("/exit", "")),
        ("/quit", Command("/exit", "")),
        ("/exit please tell me what this does", Surplus("/exit")),
        ("/quit now", Surplus("/quit")),
        ("/clear\nplease explain this command", Surplus("/clear")),
        ("/", Command("/help", "")),
        ("/?", Command("/help", "")),
        ("/set temperature 0.5", Command("/set", "temperature 0.5")),
        ("/system be brief\nand kind", Command("/system", "be brief\nand kind")),
        ("/exti", Unknown("/exti", "/exit")),
        ("/qqqq now", Unknown("/qqqq", None)),
        ("/tmp/a.txt is missing", Text("/tmp/a.txt is missing")),
        ("/Users/me/x.png", Text("/Users/me/x.png")),
        ("//exit", Text("/exit")),
        ("//x", Text("/x")),
        ("what does /exit do?", Text("what does /exit do?")),
        ("/2 is a half", Text("/2 is a half")),
        ("안녕", Text("안녕")),
    ],
)
def test_lines(line, meaning):
    assert parse(line) == meaning


@given(st.text().filter(lambda text: not text.strip().startswith("/")))
def test_what_begins_with_no_slash_is_sent_unchanged(text):
    assert parse(text) == Text(text)


def test_help_names_every_command():
    assert {left.split()[0] for left, _ in help_rows()} >= set(COMMANDS)
