import errno
import os
import stat
import subprocess
import sys
import textwrap

import pytest

from llmcli.errors import LlmcliError, ModelError, OutOfMemory
from llmcli.models import manifest, store
from llmcli.models.locate import Located
from llmcli.models.store import Slot, require_space, slot, staging


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LLMCLI_HOME", str(tmp_path / "home"))


@pytest.fixture
def place(tmp_path):
    file = tmp_path / "tiny model.gguf"
    file.write_bytes(b"GGUF")
    return slot(Located("tiny", "gguf", str(file), file, None))


def fill(place, text="weights"):
    with staging(place) as target:
        (target / "model.safetensors").write_text(text)


def leftovers(place):
    return sorted(path.name for path in place.directory.iterdir())


def test_looking_writes_nothing(tmp_path, place):
    assert not place.ready
    assert place.directory.name.startswith("tiny_model-")
    assert not (tmp_path / "home").exists()


def test_a_finished_conversion_is_ready_and_private(place):
    fill(place)
    assert place.ready
    assert manifest.read(place.converted).files == {"model.safetensors": 7}
    assert manifest.damage(place.converted) == ()
    assert leftovers(place) == ["lock", "safetensors"]
    for directory in (place.directory, place.directory.parent, place.converted):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_ready_slot_is_not_made_twice(place):
    fill(place)
    with staging(place) as target:
        assert target is None


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_conversion_that_fails_leaves_nothing(place, failure):
    def fail():
        with staging(place) as target:
            (target / "model.safetensors").write_text("half")
            raise failure

    with pytest.raises(failure):
        fail()
    assert not place.ready
    assert leftovers(place) == ["lock"]
    fill(place)
    assert place.ready


def test_what_a_killed_process_left_is_removed_by_the_next(place):
    script = """
        import os, sys
        from pathlib import Path
        from llmcli.models.store import Slot, staging
        with staging(Slot(Path(sys.argv[1]), Path("x.gguf"))) as target:
            (target / "model.safetensors").write_text("half")
            os._exit(9)
    """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(place.directory)], check=False)
    assert killed.returncode == 9
    assert leftovers(place) == ["lock", "safetensors.partial"]
    assert not place.ready
    (place.directory / "tiny.gguf.partial").write_text("half a download")
    fill(place, "whole")
    assert leftovers(place) == ["lock", "safetensors"]
    assert (place.converted / "model.safetensors").read_text() == "whole"


def test_a_second_process_waits_and_then_finds_it_done(place):
    script = """
        import sys
        from pathlib import Path
        from llmcli.models.store import Slot, staging
        place = Slot(Path(sys.argv[1]), Path("x.gguf"))
        with staging(place, lambda: print("waiting", flush=True)) as target:
            print("target", target, flush=True)
    """
    with staging(place) as target:
        command = [sys.executable, "-c", textwrap.dedent(script), str(place.directory)]
        second = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert second.stdout.readline() == "waiting\n"
        (target / "model.safetensors").write_text("first")
    assert second.communicate()[0] == "target None\n"
    assert (place.converted / "model.safetensors").read_text() == "first"


def test_a_conversion_of_another_format_is_replaced(place):
    fill(place, "old")
    (place.converted / manifest.FILENAME).write_text('{"format": 0, "files": {}}')
    assert not place.ready
    fill(place, "new")
    assert (place.converted / "model.safetensors").read_text() == "new"
    assert leftovers(place) == ["lock", "safetensors"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": "1"}', '{"format": true, "files": {}}', "\udcff"])
def test_a_damaged_manifest_is_not_ready(place, content):
    fill(place)
    (place.converted / manifest.FILENAME).write_bytes(content.encode("utf-8", "surrogateescape"))
    assert not place.ready


def test_a_converted_file_that_shrank_or_went_is_named(place):
    fill(place)
    (place.converted / "model.safetensors").write_text("w")
    assert manifest.damage(place.converted) == ("model.safetensors has 1 bytes instead of 7",)
    (place.converted / "model.safetensors").unlink()
    assert manifest.damage(place.converted) == ("model.safetensors is missing",)


def test_a_damaged_conversion_is_not_ready_and_is_made_again(place):
    with staging(place) as fresh:
        (fresh / "model.safetensors").write_bytes(b"whole")
    (place.converted / "model.safetensors").write_bytes(b"who")
    assert not place.ready
    with staging(place) as fresh:
        assert fresh is not None
        (fresh / "model.safetensors").write_bytes(b"whole")
    assert place.ready
    assert (place.converted / "model.safetensors").read_bytes() == b"whole"


def test_a_local_file_that_changed_gets_another_slot(tmp_path, place):
    file = tmp_path / "tiny model.gguf"
    located = Located("tiny", "gguf", str(file), file, None)
    assert slot(located) == place
    file.write_bytes(b"GGUF2")
    assert slot(located).directory != place.directory


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), RuntimeError("I/O: No space left on device (os 28)")])
def test_a_full_disk_says_so_and_what_to_do(place, error):
    with pytest.raises(OutOfMemory) as caught, staging(place):
        raise error
    assert str(place.directory) in caught.value.message
    assert "LLMCLI_HOME" in caught.value.hint
    assert leftovers(place) == ["lock"]


def test_an_error_of_the_converter_is_passed_on_as_it_is(place):
    error = ModelError("the tokenizer cannot be converted")
    with pytest.raises(ModelError) as caught, staging(place):
        raise error
    assert caught.value is error


def test_a_cache_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LLMCLI_HOME", str(tmp_path / "file"))
    directory = tmp_path / "file" / "cache"
    with pytest.raises(LlmcliError) as caught, staging(Slot(directory, directory / "x.gguf")):
        pass
    assert str(directory) in caught.value.message
    assert "LLMCLI_HOME" in caught.value.hint


def test_too_little_space_is_said_before_anything_starts(place):
    require_space(place.directory, 1, "converting tiny.gguf")
    with pytest.raises(OutOfMemory, match=r"converting tiny.gguf needs .* GiB on the disk of .* are free"):
        require_space(place.directory, 2**60, "converting tiny.gguf")
    assert not os.path.lexists(place.directory)


def test_a_directory_has_no_slot(tmp_path):
    with pytest.raises(ValueError, match="loaded where it is"):
        slot(Located("x", "directory", ".", tmp_path, None))
    assert store.CONVERTED_FORMAT == 1
