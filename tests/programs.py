"""The program in a process of its own."""

import os
import subprocess
import sys


def run_llmcli(home, *arguments, stdin=subprocess.DEVNULL):
    """Run a command to its end; stdout and stderr as text."""
    environment = {**os.environ, "LLMCLI_HOME": str(home)}
    program = [sys.executable, "-m", "llmcli", *map(str, arguments)]
    return subprocess.run(
        program, check=False, capture_output=True, text=True, env=environment, stdin=stdin, timeout=600
    )
