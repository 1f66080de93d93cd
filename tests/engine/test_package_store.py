"""Where compiled steps lie: found again whole, private, below a cap, and never half made."""

import dataclasses
import os
import subprocess
import sys
import time

import pytest

from llmcli.engine.compile import recipe as recipes
from llmcli.engine.compile import store
from llmcli.engine.compile.recipe import Recipe
from llmcli.errors import LlmcliError

RECIPE = Recipe('{"model_type": "llama"}', "int4", "bfloat16", 1, 2, "AVX512 0", kinds=(("a.bias", "float32"),))
OTHERS = {
    "config": '{"model_type": "gemma"}',
    "quant": "none",
    "dtype": "float32",
    "rows": 2,
    "threads": 1,
    "cpu": "AVX2 0",
    "device": "cuda",
    "kinds": (),
}


def publish(recipe=RECIPE, size=10, **meta):
    """A package of `size` bytes of code."""
    made = store.workplace() / "made"
    made.mkdir(mode=0o700)
    if "reason" not in meta:
        (made / store.CODE).write_bytes(b"x" * size)
        (made / store.CONSTANTS).write_bytes(b"y")
    return store.publish(recipe, made, store.Meta(recipes.facts(recipe), recipes.versions(), 3.0, **meta))


@pytest.fixture(autouse=True)
def private(home):
    """The directory as the process that compiles makes it."""
    with store.locked(RECIPE):
        pass


def test_what_was_published_is_found_again():
    made = publish()
    found = store.find(RECIPE)
    assert found == made
    assert found.code.read_bytes() == b"x" * 10
    assert found.meta.recipe == recipes.Facts("int4", "bfloat16", 1, 2, "AVX512 0", "cpu")
    assert store.root().stat().st_mode & 0o777 == 0o700
    assert not list(store.root().glob(".making-*/made"))


def test_a_step_that_cannot_be_compiled_is_found_as_such():
    publish(reason="no")
    assert store.find(RECIPE).meta.reason == "no"


@pytest.mark.parametrize("field", OTHERS)
def test_any_other_recipe_finds_nothing(field):
    publish()
    other = dataclasses.replace(RECIPE, **{field: OTHERS[field]})
    assert other.key != RECIPE.key
    assert store.find(other) is None


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_other_versions_find_nothing(monkeypatch, package):
    publish()
    real = recipes.importlib.metadata.version
    monkeypatch.setattr(recipes.importlib.metadata, "version", lambda name: real(name) + "+other" * (name == package))
    assert store.find(RECIPE) is None


def test_another_llmcli_or_machine_finds_nothing(monkeypatch):
    publish()
    with monkeypatch.context() as other:
        other.setattr(recipes, "__version__", "999")
        assert store.find(RECIPE) is None
    monkeypatch.setattr(recipes.platform, "machine", lambda: "vax")
    assert store.find(RECIPE) is None


def test_a_key_is_the_same_in_every_process():
    code = (
        "import sys; from llmcli.engine.compile import recipe; print(recipe.decode(sys.stdin.buffer.read()).key); "
        "assert 'torch' not in sys.modules"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    ran = subprocess.run(
        [sys.executable, "-c", code], input=recipes.encode(RECIPE), capture_output=True, check=True, env=environment
    )
    assert ran.stdout.decode().strip() == RECIPE.key


@pytest.mark.parametrize("name", [store.CODE, store.CONSTANTS])
@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b"x" * 9 + b"y"), lambda path: path.unlink()])
def test_a_damaged_package_is_thrown_away(name, damage):
    damage(publish().directory / name)
    with pytest.raises(store.DamagedError, match="damaged and has been thrown away"):
        store.find(RECIPE)
    assert store.whole(RECIPE) is None
    assert not store.place_of(RECIPE).exists()


@pytest.mark.parametrize(
    "text",
    [b"", b"\xff\x00", b"{}", b'{"recipe":{},"versions":{},"seconds":1}'],
    ids=["empty", "no text", "no facts", "no recipe"],
)
def test_a_description_of_garbage_is_thrown_away(text):
    (publish().directory / store.META).write_bytes(text)
    assert store.packages(RECIPE.model_key) == []
    with pytest.raises(store.DamagedError, match="damaged and has been thrown away"):
        store.find(RECIPE)
    assert store.whole(RECIPE) is None
    assert not store.place_of(RECIPE).exists()


def test_a_description_without_sums_vouches_for_nothing():
    made = publish()
    meta = dataclasses.replace(made.meta, sha256={})
    (made.directory / store.META).write_bytes(recipes.msgspec.json.encode(meta))
    with pytest.raises(store.DamagedError, match="damaged and has been thrown away"):
        store.find(RECIPE)
    assert store.whole(RECIPE) is None


@pytest.mark.parametrize("mode", [0o020, 0o002])
@pytest.mark.parametrize("where", ["root", "model", "package", "code", "constants", "meta"])
def test_what_others_may_write_is_not_used(where, mode):
    made = publish()
    places = {"root": store.root(), "model": made.directory.parent, "package": made.directory, "code": made.code}
    path = (places | {"constants": made.constants, "meta": made.directory / store.META})[where]
    path.chmod(path.stat().st_mode | mode)
    with pytest.raises(LlmcliError, match="written by somebody else") as raised:
        store.find(RECIPE)
    assert raised.value.message.startswith(str(path))
    assert made.code.exists(), "nothing of somebody else's is removed"


@pytest.mark.parametrize("where", ["root", "model", "package", "code"])
def test_a_link_is_not_followed(where, tmp_path):
    made = publish()
    places = {"root": store.root(), "model": made.directory.parent, "package": made.directory, "code": made.code}
    path = places[where]
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LlmcliError, match="is a link"):
        store.find(RECIPE)


def test_nothing_is_made_where_others_may_write():
    store.root().chmod(0o777)
    with pytest.raises(LlmcliError, match="somebody else"):
        store.locked(RECIPE)
    assert store.root().stat().st_mode & 0o777 == 0o777


def test_a_cache_that_cannot_be_made_is_an_error(home):
    store.root().joinpath(f".{RECIPE.key}.lock").unlink()
    store.root().rmdir()
    store.root().write_text("in the way")
    assert store.find(RECIPE) is None
    with pytest.raises(OSError, match="compiled"):
        store.locked(RECIPE)


def test_times_are_kept_for_the_next_start():
    publish().noted(4.0, 2.0)
    found = store.find(RECIPE)
    assert (found.meta.eager_ms, found.meta.compiled_ms) == (4.0, 2.0)


def test_a_new_package_takes_the_place_of_an_old_one():
    publish(size=10)
    publish(size=20)
    assert store.find(RECIPE).code.stat().st_size == 20
    assert len(store.packages(RECIPE.model_key)) == 1


def test_the_packages_of_a_model_the_newest_first():
    for threads, age in ((1, 300), (2, 100), (3, 200)):
        made = publish(dataclasses.replace(RECIPE, threads=threads))
        os.utime(made.directory, (time.time() - age,) * 2)
    publish(dataclasses.replace(RECIPE, config="{}"))
    assert [package.meta.recipe.threads for package in store.packages(RECIPE.model_key)] == [2, 3, 1]
    assert store.packages("nothing") == []


def test_what_has_not_been_used_for_longest_goes_when_there_is_too_much(monkeypatch):
    recipes_made = [dataclasses.replace(RECIPE, threads=threads) for threads in range(4)]
    for age, recipe in enumerate(recipes_made[:3]):
        made = publish(recipe, size=1000)
        os.utime(made.directory, (time.time() - 100 - age,) * 2)
    store.find(recipes_made[2])  # it is used
    monkeypatch.setattr(store, "CAP_BYTES", 5000)
    publish(recipes_made[3], size=1000)
    assert [store.find(recipe) is not None for recipe in recipes_made] == [True, False, True, True]


def test_a_package_larger_than_the_cap_is_kept_alone(monkeypatch):
    publish(dataclasses.replace(RECIPE, threads=1))
    monkeypatch.setattr(store, "CAP_BYTES", 100)
    publish(size=1000)
    assert store.find(RECIPE) is not None
    assert len(store.packages(RECIPE.model_key)) == 1


def test_workplaces_of_processes_that_have_ended_are_removed():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    kept = store.workplace()
    left = [store.root() / f".making-{ended.pid}-a", store.root() / f".making-{os.getpid()}-old"]
    for directory in left:
        directory.mkdir()
        (directory / "file").write_text("")
    os.utime(left[1], (time.time() - 25 * 3600,) * 2)
    new = store.workplace()
    assert {kept, new} == set(store.root().glob(".making-*"))
    assert new.stat().st_mode & 0o777 == 0o700
