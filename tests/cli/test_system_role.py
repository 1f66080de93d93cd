"""A system text for a model whose chat template has no place for one."""

import pytest
from tiny_models import TEMPLATE, saved_model

REFUSES = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"


@pytest.fixture
def strict(tmp_path):
    """A tiny model whose template refuses a system message."""
    folder = saved_model(tmp_path / "strict")
    (folder / "chat_template.jinja").write_text(REFUSES + TEMPLATE)
    return folder


def test_the_system_text_goes_in_front_of_the_message_and_that_is_said_once(llmcli, strict):
    result = llmcli("chat", strict, "-s", "be brief", "-p", "hi", "--max-new-tokens", 1, "--json")
    assert result.code == 0
    assert result.err.count("has no system role") == 1
    same = llmcli("chat", strict, "-p", "be brief\n\nhi", "--max-new-tokens", 1, "--json")
    assert "system role" not in same.err
    assert result.json()["tokens"]["prompt"] == same.json()["tokens"]["prompt"]
