"""Which room may import what: told from a file's path, and proved on a running program."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "llmcli"
HEAVY = ("torch", "transformers", "bitsandbytes", "accelerate", "numpy", "huggingface_hub", "gguf", "safetensors")
BASE = {"errors", "units", "paths", "console", "inference", "sampling_rules", "load_rules", "prefill_rules", "__init__"}
BASE |= {"kv_rules", "ranks"}
MAY_IMPORT = {
    "metrics": {"metrics"},
    "models": {"models"},
    "estimate": {"estimate", "models"},
    "bench": {"bench", "metrics"},
    "chat": {"chat", "metrics"},
    "engine": {"engine"},
    "cli": {"cli", "chat", "bench", "estimate", "models", "metrics", "engine"},
}
LIBRARIES = {
    "typer": {"cli"},
    "torch": {"engine"},
    "transformers": {"engine"},
    "bitsandbytes": {"engine"},
    "accelerate": {"engine"},
    "tokenizers": {"engine", "estimate"},
    "matplotlib": {"estimate"},
    "pynvml": {"cli"},
    "prompt_toolkit": {"chat"},
    "sqlite3": {"metrics"},
    "huggingface_hub": {"models"},
    "tomlkit": {"models"},
}


def imports():
    for file in sorted(PACKAGE.rglob("*.py")):
        room = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file}:{node.lineno} imports relatively"
                names = [node.module]
                if node.module == "llmcli":
                    names = [f"llmcli.{alias.name}" for alias in node.names]
            yield from ((file, room, name, node.lineno) for name in names)


def test_rooms_import_only_what_they_may():
    wrong = []
    for file, room, name, line in imports():
        parts = name.split(".")
        if parts[0] != "llmcli" or len(parts) < 2 or parts[1] == "__version__":
            continue
        allowed = MAY_IMPORT.get(room, {"cli"} if room == "__main__" else set()) | BASE
        if parts[1] not in allowed:
            wrong.append(f"{file.relative_to(PACKAGE)}:{line} imports {name}")
    assert wrong == []


def test_each_library_stays_in_its_room():
    wrong = [
        f"{file.relative_to(PACKAGE)}:{line} imports {name}"
        for file, room, name, line in imports()
        if name.split(".")[0] in LIBRARIES and room not in LIBRARIES[name.split(".")[0]]
    ]
    assert wrong == []


def test_the_engine_interface_needs_the_standard_library_only():
    names = {name.split(".")[0] for file, room, name, _ in imports() if room == "inference"}
    assert names <= set(sys.stdlib_module_names) | {"llmcli"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["chat", "--help"],
        ["bench", "--help"],
        ["estimate-kv"],
        ["estimate-kv", "--format", "csv", "--vram", "auto"],
        ["models", "list"],
        ["models", "show"],
        ["models", "check"],
        ["log", "--help"],
        ["log", "last"],
        ["log", "list"],
        ["log", "show", "abcd"],
        ["log", "stats"],
        ["log", "export"],
        ["models", "add", "x", "org/name"],
        ["models", "rm", "x"],
        ["models", "rm", "x", "--files"],
        ["models", "path", "org/name"],
        ["chat", "--temperature", "-1", "-p", "x"],
        ["chat", "no-such-model", "-p", "x"],
        ["bench", "--prompt-len", "9000"],
    ],
)
def test_commands_that_load_no_model_load_no_torch(arguments):
    code = f"""
import sys
from llmcli.cli.app import run
run({arguments!r})
print(sorted(name for name in {HEAVY!r} if name in sys.modules), file=sys.stderr)
"""
    program = [sys.executable, "-c", code]
    ran = subprocess.run(program, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert ran.stderr.splitlines()[-1] == "[]"
