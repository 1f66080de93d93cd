"""The process that compiles: what it leaves behind, whatever ends it."""

import errno
import os
import signal
import sys
import threading
import time

import compiled
import pytest

import llmcli.engine.compile.build
from llmcli.engine.compile import child, launch, store
from llmcli.engine.compile import recipe as recipes
from llmcli.engine.compile.recipe import Recipe

RECIPE = Recipe("{}", "none", "float32", 1, 1, "any")


@pytest.fixture
def compile_here(monkeypatch):
    """Run what the process runs, with `build` replaced."""
    handler = signal.getsignal(signal.SIGTERM)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")
    monkeypatch.setattr(sys, "argv", ["child"])

    def run(build):
        monkeypatch.setattr(llmcli.engine.compile.build, "build", build)
        monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": _Given(recipes.encode(RECIPE))}))
        try:
            child.main()
        finally:
            child.tempfile.tempdir = None
        return store.find(RECIPE)

    yield run
    signal.signal(signal.SIGTERM, handler)
    assert not list(store.root().glob(".making-*"))


class _Given:
    def __init__(self, data):
        self._data = data

    def read(self):
        return self._data


def test_what_the_compiler_says_is_kept_as_the_reason(compile_here, capfd):
    def build(_recipe, directory):
        (directory / store.CODE).write_bytes(b"half")
        raise RuntimeError("C++ compile error\n\nCommand: g++ …\n\na.cpp:1:10: fatal error: Python.h: No such file\n 1")

    package = compile_here(build)
    assert package.meta.reason == "RuntimeError: a.cpp:1:10: fatal error: Python.h: No such file"
    assert not package.code.exists()
    assert "Traceback" in capfd.readouterr().err


def test_a_full_disk_is_no_reason_for_ever(compile_here):
    def build(_recipe, _directory):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(SystemExit, match="No space left on device"):
        compile_here(build)


def test_what_another_process_has_made_meanwhile_is_taken(compile_here):
    compile_here(lambda recipe, _: store.Meta(recipes.facts(recipe), recipes.versions(), 1.0, reason="first"))
    assert compile_here(None).meta.reason == "first"


STUCK = """
import os, time
with open(os.environ["MARK"] + ".part", "w") as file:
    file.write(f"{os.getpid()} {os.getsid(0)} {os.nice(0)}")
os.rename(os.environ["MARK"] + ".part", os.environ["MARK"])
time.sleep(60)
"""
"""Instead of compiling, tell who one is and take a minute."""


@pytest.fixture
def stuck(tmp_path, monkeypatch):
    """Make the process one that never comes to an end; returns the file that tells of it."""
    mark = tmp_path / "mark"
    for name, value in compiled.instead_of("llmcli.engine.compile.build", STUCK, tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MARK", str(mark))
    return mark


def wait_for(mark):
    deadline = time.monotonic() + 60
    while not mark.exists():
        assert time.monotonic() < deadline, launch.last_words()
        time.sleep(0.02)
    return tuple(map(int, mark.read_text().split()))


def test_ctrl_c_ends_the_compilation_and_leaves_nothing(stuck):
    def interrupt():
        wait_for(stuck)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        launch.compile_now(RECIPE)
    pid, _, priority = wait_for(stuck)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert priority == os.nice(0)
    assert not list(store.root().glob(".making-*"))
    assert store.find(RECIPE) is None


def test_beside_a_conversation_it_has_the_lowest_priority_and_a_session_of_its_own(stuck):
    done = threading.Event()
    launch.compile_beside(RECIPE, done.set)
    pid, session, priority = wait_for(stuck)
    assert (session, priority) == (pid, 19)
    assert not done.is_set()
    os.kill(pid, signal.SIGTERM)
    assert done.wait(60)
    assert not list(store.root().glob(".making-*"))
