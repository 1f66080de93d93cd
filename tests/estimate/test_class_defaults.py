"""The table of class defaults is the one that transformers gives."""

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "class_defaults.py"


def test_the_table_is_made_from_the_transformers_that_is_installed():
    checked = subprocess.run([sys.executable, TOOL, "--check"], check=False)
    assert checked.returncode == 0, "run: python tools/class_defaults.py"
