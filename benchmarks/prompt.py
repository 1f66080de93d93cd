"""How soon a conversation takes input: seconds from the start of the program to its prompt, and to a key's echo.

Usage: python benchmarks/prompt.py [--rounds N]

Starts `llmcli chat` on a pseudo-terminal, waits for the prompt, types a letter while the weights load, and waits for it
to appear. Prints medians with least and most.
"""

import argparse
import platform
import statistics
import sys
import time

import pexpect


def once() -> tuple[float, float]:
    """Seconds to the prompt, and to the letter."""
    started = time.perf_counter()
    child = pexpect.spawn(sys.executable, ["-m", "llmcli", "chat", "--no-log"], timeout=60)
    child.delaybeforesend = None
    child.expect(r"Ctrl-D leaves[^\n]*\n[^>\n]*>")
    prompt = time.perf_counter() - started
    child.send("x")
    child.expect_exact("x")
    echo = time.perf_counter() - started
    child.close(force=True)
    return prompt, echo


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = [once() for _ in range(parser.parse_args().rounds)]
    for name, times in zip(("prompt", "echo"), zip(*rounds, strict=True), strict=True):
        print(f"{name:6}  median {statistics.median(times):.2f} s ({min(times):.2f} to {max(times):.2f})")
    print(f"python {platform.python_version()}, {len(rounds)} rounds")


if __name__ == "__main__":
    main()
