"""`estimate-kv` on terminals: colours where they are wanted, and no line that the terminal has to break."""

import json
import os
import sys

import pytest

pexpect = pytest.importorskip("pexpect", reason="there are no pseudo-terminals here")


@pytest.fixture
def config(tmp_path):
    values = {
        "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "torch_dtype": "bfloat16",
        "max_position_embeddings": 131072,
    }  # fmt: skip
    path = tmp_path / "llama-of-eight-billion-parameters.json"
    path.write_text(json.dumps(values))
    return str(path)


def screen(config, columns, **environment) -> str:
    """Everything that one run writes on a terminal of so many columns."""
    arguments = ["-m", "llmcli", "estimate-kv", config, "--vram", "24GiB", "--context", "4k,100k", "--batch", "1,8"]
    child = pexpect.spawn(
        sys.executable, arguments, dimensions=(50, columns), encoding="utf-8", timeout=60,
        env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "", **environment},
    )  # fmt: skip
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    return child.before.replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [40, 80])
def test_a_dumb_terminal_gets_plain_lines_that_fit(config, columns):
    text = screen(config, columns, TERM="dumb")
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= columns
    assert "│" in text
    assert "longest context that fits at batch 8" in text.replace("\n  ", " ")


def test_colours_are_left_out_where_they_are_not_wanted(config):
    colour = "\x1b[32m"
    assert colour in screen(config, 80, NO_COLOR="")
    plain = screen(config, 80, NO_COLOR="1")
    assert colour not in plain
    assert "yes, " in plain
