"""Helpers of the estimate's tests: tiny configs, and the writer of GGUF files."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))

SHARED = Path(__file__).parents[3] / "shared"


@pytest.fixture
def shared_data() -> Path:
    """The folder of real configs and known sizes; not part of this repository."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    return folder


@pytest.fixture(scope="session")
def default_gguf() -> Path:
    """The file of the registry's default model, where it has been fetched already."""
    from llmcli.models.locate import locate
    from llmcli.models.registry import load_registry

    path = locate("smollm2-135m", load_registry()).original
    if path is None:
        pytest.skip("the default model has not been fetched: llmcli models pull smollm2-135m")
    return path


@pytest.fixture(autouse=True)
def _own_home(tmp_path, monkeypatch):
    """No test sees the registry or the cache of the person who runs it."""
    monkeypatch.setenv("LLMCLI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("LLMCLI_MODELS", raising=False)
