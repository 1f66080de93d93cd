"""A tiny model on disk, and a way to run the program in this process."""

import json
import sys
import textwrap
from types import SimpleNamespace

import pytest
from programs import run_llmcli
from tiny_models import saved_model

from llmcli.cli import app
from llmcli.engine.compile import launch


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


def _customized(folder, module, code):
    """Environment of a program in which importing `module` first runs `code`, on the thread that imports it."""
    (folder / "sitecustomize.py").write_text(
        "import importlib.abc, sys, time\n"
        "class Hook(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == {module!r}:\n"
        "            sys.meta_path.remove(self)\n" + textwrap.indent(code, " " * 12) + "\n"
        "sys.meta_path.insert(0, Hook())\n"
    )
    return {"PYTHONPATH": str(folder)}


@pytest.fixture(scope="session")
def default_home(request, tmp_path_factory):
    """A home that holds the default model, kept between runs in pytest's cache."""
    cache = getattr(request.config, "cache", None)
    home = cache.mkdir("default-model") if cache else tmp_path_factory.mktemp("default-model")
    pulled = run_llmcli(home, "models", "pull")
    if pulled.returncode == 3 and "could not" in pulled.stderr.lower():
        pytest.skip(f"the default model cannot be fetched: {pulled.stderr.strip().splitlines()[-1]}")
    assert pulled.returncode == 0, pulled.stderr
    return home


_SLOW = """
import os
import llmcli.engine.decode.eager as generate
real = generate.forward
def forward(model, ids, cache):
    with open(os.environ["FORWARDS"], "a") as file:
        file.write(".")
    time.sleep(SECONDS)
    return real(model, ids, cache)
generate.forward = forward
"""
"""Every forward takes SECONDS longer, and leaves a dot in a file: see `talk.forwards`."""


def _slowed(folder, seconds):
    environment = _customized(folder, "llmcli.engine.serve", _SLOW.replace("SECONDS", seconds))
    (folder / "forwards").write_text("")
    return {**environment, "FORWARDS": str(folder / "forwards")}


@pytest.fixture
def slow_engine(tmp_path):
    """A program in which every forward takes 50 ms longer."""
    return _slowed(tmp_path, "0.05")


@pytest.fixture
def slow_prefill(tmp_path):
    """A program in which every forward of several tokens takes three seconds longer."""
    return _slowed(tmp_path, "3 * (ids.shape[1] > 1)")


@pytest.fixture
def stuck_prefill(tmp_path):
    """A program in which every forward of several tokens takes a minute longer."""
    return _slowed(tmp_path, "60 * (ids.shape[1] > 1)")


@pytest.fixture
def slow_import(tmp_path):
    """A program that says `importing` on stderr before it imports torch, and then takes its time."""
    return _customized(tmp_path, "torch", 'sys.stderr.write("importing\\n"); sys.stderr.flush(); time.sleep(20)')


class NVMLError(Exception):
    pass


@pytest.fixture
def nvml(monkeypatch):
    """Make NVML find GPUs of the given names; memory: free and total bytes of GPU i, without it i and 100 + i."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)

    def find(*names, memory=lambda i: (i, 100 + i)):
        def handle(uuid):
            if uuid not in {f"GPU-{i}" for i in range(len(names))}:
                raise NVMLError
            return int(uuid.removeprefix("GPU-"))

        def sizes(i):
            free, total = memory(i)
            return SimpleNamespace(free=free, total=total)

        fake = SimpleNamespace(
            NVMLError=NVMLError,
            nvmlInit=lambda: None,
            nvmlShutdown=lambda: None,
            nvmlDeviceGetCount=lambda: len(names),
            nvmlDeviceGetHandleByIndex=lambda i: i,
            nvmlDeviceGetHandleByUUID=handle,
            nvmlDeviceGetName=lambda i: names[i],
            nvmlDeviceGetMemoryInfo=sizes,
        )
        monkeypatch.setitem(sys.modules, "pynvml", fake)

    return find


@pytest.fixture
def compilable(compiled_model, monkeypatch):
    """A model whose step could be compiled, and may be."""
    monkeypatch.setenv("LLMCLI_COMPILE", "")
    return compiled_model[0]


@pytest.fixture
def nothing_starts(monkeypatch):
    """No process is started that compiles."""

    def start(*_arguments, **_more):
        raise AssertionError("a compiler was started")

    monkeypatch.setattr(launch, "start", start)


@pytest.fixture
def no_compiler(monkeypatch, tmp_path, nothing_starts):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
