"""Compiling beside a conversation, which goes on meanwhile."""

import compiled
import pytest

from llmcli.cli.compiling import compile_beside
from llmcli.cli.notes import Notes
from llmcli.engine.start import start_engine

NO_COMPILER = "notice: decode is eager: there is no C++ compiler here (g++ or clang++)"
STAND_IN = """
import os, subprocess, sys
import llmcli.engine.compile.launch as launch
CODE = '''
import os, shutil, sys, time
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.02)
if os.path.exists(os.environ["MADE"]):
    shutil.copytree(os.environ["MADE"], os.environ["LLMCLI_HOME"] + "/cache/compiled", dirs_exist_ok=True)
else:
    print("no room", file=open(os.environ["LLMCLI_HOME"] + "/state/compile.log", "w"))
'''
def start(recipe, *, low):
    with open(os.environ["ASKED"], "a") as file:
        file.write(f"{recipe.rows} {low} ")
    return subprocess.Popen([sys.executable, "-c", CODE])
launch.start = start
"""
"""The process that compiles waits for the file GO, then lays what MADE names into the cache, or fails."""


@pytest.fixture
def talking(compilable, compiled_model, home, tmp_path):
    """Begin a conversation in which compiling ends when the test wants it to."""
    talk = pytest.importorskip("talk")
    opened = []

    def begin(packages=None, **environment):
        (home / "state").mkdir(exist_ok=True)
        stand_in = compiled.instead_of("llmcli.cli.conversing", STAND_IN, tmp_path)
        files = {"GO": tmp_path / "go", "ASKED": tmp_path / "asked", "MADE": packages or compiled_model[1]}
        named = {name: str(path) for name, path in files.items()}
        environment |= {**stand_in, **named}
        opened.append(talk.Talk(compilable, "--max-new-tokens", 4, home=home, columns=120, **environment))
        return opened[-1], files["GO"], files["ASKED"]

    yield begin
    for one in opened:
        one.child.close(force=True)


def test_a_conversation_compiles_beside_and_goes_on_with_what_was_made(talking):
    talk, go, asked = talking()
    talk.until("loaded in.*compiling the decode step beside the conversation, once; answers are eager until then")
    talk.ask("/show")
    talk.until(r"decode eager")
    talk.child.send("half a li")
    talk.until("half a li")
    go.touch()
    talk.until(r"the decode step is compiled: the next answer is faster *\r?\n.*> half a li")
    talk.ask("ne")
    talk.until(r"half a line.*decode 3 tok")
    talk.ask("/show")
    talk.until(r"decode compiled")
    assert asked.read_text() == "1 True "
    talk.child.send("\x04")
    assert "Traceback" not in talk.end()


def test_one_that_fails_is_told_on_a_line_of_its_own_where_there_are_no_escapes(talking, tmp_path):
    talk, go, _ = talking(packages=tmp_path / "nothing", TERM="dumb")
    talk.until(r"\ncompiling the decode step beside the conversation[^\n]*\n> ")
    go.touch()
    talk.until(r"\nnotice: decode is eager: compiling failed: no room \([^\n]*\n> ")
    talk.ask("hi")
    talk.until("decode 3 tok")


@pytest.fixture
def beside(compilable):
    """What a conversation with the model says when it begins to compile, if it may."""
    engines = []

    def said():
        lines = []
        engines.append(start_engine(compiled.request(compilable)))
        compile_beside(engines[-1], lines.append)
        return lines

    yield said
    for engine in engines:
        engine.close()


def test_a_conversation_that_finds_a_step_compiles_nothing(beside, compiled_model, nothing_starts):
    compiled.put(compiled_model[1])
    assert beside() == []


def test_a_conversation_without_a_compiler_says_so(beside, no_compiler, monkeypatch):
    assert beside() == [NO_COMPILER]
    monkeypatch.setenv("LLMCLI_COMPILE", "off")
    assert beside() == []


def test_a_conversation_that_cannot_start_a_process_says_so(beside, monkeypatch):
    monkeypatch.setattr("sys.executable", "/nonexistent/python")
    (line,) = beside()
    assert line.startswith("notice: decode is eager: the compiler cannot be started: [Errno 2]")


class Typing:
    """A prompt that is there or not."""

    def __init__(self):
        self.there = False

    def above(self, show):
        if self.there:
            show()


def test_a_note_waits_until_there_is_a_prompt_to_stand_above():
    said, reader = [], Typing()
    notes = Notes(said.append)
    notes.add("one", reader)
    notes.add("two", reader)
    notes.offer(reader)
    assert said == []
    reader.there = True
    notes.offer(reader)
    notes.offer(reader)
    notes.add("three", reader)
    assert said == ["one", "two", "three"]
    reader.there = False
    notes.add("four", reader)
    notes.flush()
    notes.flush()
    assert said == ["one", "two", "three", "four"]
