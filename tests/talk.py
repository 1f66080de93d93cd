"""A conversation on a pseudo-terminal, driven by a test."""

import os
import re
import sys
import time
from pathlib import Path

import pytest

pexpect = pytest.importorskip("pexpect")

LINE = re.compile(r"prompt (\d+)(?: \((\d+) cached\))?.*?(?:prefill|decode|other[^%]*?) \d+ %( · \w+)?", re.DOTALL)
PROMPT = r"(?:^|\n)>"


def forwards_of(file):
    """How many forwards a slowed engine has begun, which leaves a dot for each in `file`."""
    return len(Path(file).read_text(encoding="utf-8"))


def wait_for_forwards(file, count):
    """Wait until it has begun `count` of them."""
    deadline = time.monotonic() + 60
    while forwards_of(file) < count:
        assert time.monotonic() < deadline, "the engine does not run"
        time.sleep(0.05)


class Talk:
    """A program on a pseudo-terminal, and all that it has printed."""

    def __init__(self, *arguments, home, columns=80, shell=None, **environment):
        chat = [sys.executable, "-m", "llmcli", "chat", *map(str, arguments)]
        program, *rest = ["/bin/sh", "-c", shell] if shell else chat
        self.child = pexpect.spawn(
            program,
            rest,
            cwd=str(home) if shell else None,
            env={**os.environ, "LLMCLI_HOME": str(home), "TERM": "xterm-256color", "LANG": "C.UTF-8", **environment},
            dimensions=(24, columns),
            timeout=60,
            encoding="utf-8",
            codec_errors="replace",
        )
        self.child.delaybeforesend = None
        self._forwards = environment.get("FORWARDS")
        self.counted = 0
        self.raw = ""

    def until(self, pattern):
        """What is printed up to `pattern`, escapes left out; the rest is kept for the next call."""
        deadline = time.monotonic() + 60
        wanted = re.compile(pattern, re.DOTALL)
        while time.monotonic() < deadline:
            plain = without_escapes(self.raw)
            if found := wanted.search(plain):
                self.raw = plain[found.end() :]
                return plain[: found.end()]
            try:
                self.raw += self.child.read_nonblocking(65536, timeout=0.2)
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                break
        raise AssertionError(f"{pattern!r} did not come: {without_escapes(self.raw)[-600:]!r}")

    def forwards(self, count):
        """Wait until a slowed engine has begun so many forwards more, since the last call or the last question."""
        wait_for_forwards(self._forwards, self.counted + count)
        self.counted = forwards_of(self._forwards)

    def ask(self, text):
        self.counted = forwards_of(self._forwards) if self._forwards else 0
        self.child.send(text + "\r")

    def end(self):
        """Everything until the program has ended."""
        rest = self.raw + self.child.read()
        self.child.wait()
        self.child.close()
        return without_escapes(rest)


def without_escapes(text):
    return re.sub(r"\x1b(\[[0-9;?]*[A-Za-z]|[=>])", "", text)
