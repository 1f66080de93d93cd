"""A tiny model on disk, and a way to run the program in this process."""

import json
from types import SimpleNamespace

import pytest
from tiny_models import saved_model

from llmcli.cli import app


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """The directory of a tiny Llama with random weights and a chat template."""
    return saved_model(tmp_path_factory.mktemp("models") / "tiny-llama")


@pytest.fixture
def llmcli(capsys, monkeypatch):
    """Run a command: exit code, stdout, stderr, and stdout read as JSON."""

    def run(*arguments, stdin=None):
        with open("/dev/null" if stdin is None else stdin) as file:  # noqa: PTH123
            monkeypatch.setattr("sys.stdin", file)
            code = app.run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return SimpleNamespace(code=code, out=out, err=err, json=lambda: json.loads(out, parse_constant=_refuse))

    return run


def _refuse(constant):
    raise AssertionError(f"{constant} in JSON")
