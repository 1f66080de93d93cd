"""Every test has its own home, and no test reaches for the hub."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
os.environ["HF_HUB_OFFLINE"] = "1"

REPO = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    """An empty LLMCLI_HOME, and a user registry nowhere."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("LLMCLI_HOME", str(folder))
    monkeypatch.delenv("LLMCLI_MODELS", raising=False)
    monkeypatch.delenv("LLMCLI_DEBUG", raising=False)
    return folder
