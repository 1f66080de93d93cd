"""Every test has its own home, and no test reaches for the hub."""

import os
import sys
from pathlib import Path

import pytest

import llmcli.bench.run
import llmcli.chat.answer

sys.path.insert(0, str(Path(__file__).parent))
os.environ["HF_HUB_OFFLINE"] = "1"

REPO = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    """An empty LLMCLI_HOME, an empty cache of the hub, and a user registry nowhere."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("LLMCLI_HOME", str(folder))
    monkeypatch.setenv("HF_HOME", str(folder / "hf"))  # the hub's cache of whoever runs the tests is not looked into
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.delenv("LLMCLI_MODELS", raising=False)
    monkeypatch.delenv("LLMCLI_DEBUG", raising=False)
    monkeypatch.setenv("LLMCLI_COMPILE", "off")  # it takes seconds of both cores; tests of it switch it on
    return folder


@pytest.fixture(scope="session")
def compiled_model(tmp_path_factory):
    """Directories of a tiny model and of the packages that hold its compiled step; see `compiled.put`."""
    import compiled

    from llmcli.engine.compile.compiler import refusal

    if reason := refusal():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("step")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("llmcli.engine.compile.steps._timed", compiled.steady_clock())
        with pytest.MonkeyPatch.context() as home:
            home.setenv("LLMCLI_HOME", str(folder / "home"))
            made = compiled.compile_once(folder)
        yield made


@pytest.fixture(autouse=True)
def every_record_adds_up(monkeypatch):
    """The law of phases, held against every record that any test makes: each second has exactly one name."""
    for module in (llmcli.chat.answer, llmcli.bench.run):
        monkeypatch.setattr(module, "record_of", _checked(module.record_of))


def _checked(record_of):
    def make(*arguments, **more):
        record = record_of(*arguments, **more)
        seconds = record.seconds
        parts = ("queue", "template", "tokenize", "network", "prefill", "first_sample", "unattributed")
        before = sum(getattr(seconds, part) or 0.0 for part in parts)
        assert before + (seconds.decode or 0.0) + seconds.tail == pytest.approx(seconds.total, rel=0.01)
        assert seconds.ttft is None or before == pytest.approx(seconds.ttft, rel=0.01)
        assert all(getattr(seconds, part) is None or getattr(seconds, part) >= 0 for part in (*parts, "decode", "tail"))
        return record

    return make
