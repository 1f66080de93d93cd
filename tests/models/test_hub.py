"""Models of the hub, from a hub on loopback: what is fetched, what goes on after a fault, and every refusal."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fake_hub import fake_hub, folder_files
from tiny_models import saved_model

from llmcli.models import hub_cache
from llmcli.models.integrity import check_directory
from llmcli.models.locate import locate
from llmcli.models.registry import load_registry
from llmcli.models.source import HubSource, hub_source


@pytest.fixture(scope="module")
def tiny_files(tmp_path_factory):
    """A tiny model's files with weights in two shards, and what a repository holds beside them."""
    from transformers import AutoModelForCausalLM

    folder = tmp_path_factory.mktemp("models")
    single = saved_model(folder / "single")
    AutoModelForCausalLM.from_pretrained(single).save_pretrained(folder / "shards", max_shard_size="100KB")
    files = folder_files(single) | folder_files(folder / "shards")
    del files["model.safetensors"]
    assert len([name for name in files if name.startswith("model-")]) > 1
    return files | {
        "README.md": b"# tiny",
        "pytorch_model.bin": b"\x80\x02" + bytes(20_000),
        "consolidated.safetensors": bytes(20_000),
        "original/params.json": b"{}",
        "onnx/model.onnx": bytes(20_000),
        "additional_chat_templates/tool_use.jinja": b"{{ messages }}",
    }


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub, and an environment that uses it with an empty cache and no token."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    with fake_hub() as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        yield served


@pytest.fixture
def llmcli(home):
    """Run the program in a process of its own, which reads the hub's environment anew."""

    def run(*arguments, before="", **environment):
        code = f"{before}\nimport sys\nsys.argv = ['llmcli', *{list(arguments)!r}]\n"
        code += "from llmcli.__main__ import main\nmain()"
        ended = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, stdin=subprocess.DEVNULL,
            env={**os.environ, **environment}, timeout=300, check=False,
        )  # fmt: skip
        assert "Traceback" not in ended.stderr, ended.stderr
        assert "\x1b" not in ended.stderr
        return ended

    return run


def snapshot(commit, repo="org/tiny"):
    return hub_cache.snapshot_dir(repo, commit)


def refused(ended, code, *words):
    """The error is one line and a hint, with these words, and this exit code."""
    assert ended.returncode == code, ended.stderr
    lines = ended.stderr.strip().splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert len(errors) == 1
    assert len(lines) - lines.index(errors[0]) <= 2
    for word in words:
        assert word in ended.stderr
    return ended.stderr


def test_a_model_is_fetched_whole_and_nothing_beside_it(hub, llmcli, tiny_files):
    commit = hub.add("org/tiny", tiny_files)
    ended = llmcli("models", "pull", "org/tiny")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == ""
    assert "from hub:org/tiny" in ended.stderr
    assert "MiB" in ended.stderr
    fetched = {str(path.relative_to(snapshot(commit))) for path in snapshot(commit).rglob("*") if path.is_file()}
    assert not fetched & {"README.md", "pytorch_model.bin", "consolidated.safetensors", "onnx/model.onnx"}
    assert {"config.json", "tokenizer.json", "additional_chat_templates/tool_use.jinja"} <= fetched
    assert check_directory(snapshot(commit)).checkpoint.params > 0
    assert all(path.is_symlink() for path in snapshot(commit).glob("*.safetensors"))
    located = locate("org/tiny", load_registry())
    assert (located.kind, located.original, located.revision) == ("hub", snapshot(commit), commit)


def test_chat_by_hub_id_fetches_answers_and_records_the_commit_then_needs_no_network(hub, llmcli, tiny_files):
    commit = hub.add("org/tiny", tiny_files)
    asked = ("chat", "org/tiny", "-p", "hi", "--max-new-tokens", "3", "--json")
    first = llmcli(*asked)
    assert first.returncode == 0, first.stderr
    record = json.loads(first.stdout)
    assert (record["model"]["name"], record["model"]["source"]) == ("org/tiny", "hub:org/tiny")
    assert record["model"]["revision"] == commit
    assert 1 <= record["tokens"]["generated"] <= 3
    hub.requests.clear()
    second = llmcli(*asked)
    assert second.returncode == 0, second.stderr
    assert hub.requests == []
    assert "fetching" not in second.stderr


def test_a_populated_cache_is_enough_offline(tmp_path, llmcli, hub, tiny_files):
    commit = "b" * 40
    folder = tmp_path / "hf" / "hub" / "models--org--tiny"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(commit)
    for name, content in tiny_files.items():
        path = folder / "snapshots" / commit / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    ended = llmcli("chat", "org/tiny", "-p", "hi", "--max-new-tokens", "2", "--json", HF_HUB_OFFLINE="1")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["model"]["revision"] == commit
    assert hub.requests == []
    pulled = llmcli("models", "pull", "org/tiny", HF_HUB_OFFLINE="1")
    assert (pulled.returncode, hub.requests) == (0, [])
    assert "HF_HUB_OFFLINE" in pulled.stderr


def test_a_revision_is_fetched_and_kept_apart(hub, llmcli, tiny_files):
    old = hub.add("org/tiny", tiny_files)
    hub.repositories["org/tiny"].references["v1/old"] = old
    new = hub.add("org/tiny", tiny_files | {"generation_config.json": b'{"do_sample": true}'})
    assert llmcli("models", "pull", "org/tiny@v1/old").returncode == 0
    assert hub_cache.find_snapshot(HubSource("org/tiny", "v1/old")) == snapshot(old)
    assert hub_cache.find_snapshot(HubSource("org/tiny")) is None
    assert llmcli("models", "pull", f"hub:org/tiny@{new}").returncode == 0
    assert hub_cache.find_snapshot(HubSource("org/tiny", new)) == snapshot(new)


def test_only_pull_looks_for_a_newer_commit(hub, llmcli, tiny_files):
    old = hub.add("org/tiny", tiny_files)
    llmcli("models", "pull", "org/tiny")
    new = hub.add("org/tiny", tiny_files | {"generation_config.json": b'{"temperature": 0.5}'})
    assert llmcli("models", "path", "org/tiny").stdout.strip().endswith(old)
    weights = len(hub.asked(".safetensors"))
    pulled = llmcli("models", "pull", "org/tiny")
    assert f"now at commit {new[:12]}" in pulled.stderr
    assert len(hub.asked(".safetensors")) == weights, "content that did not change is not fetched again"
    assert llmcli("models", "path", "--source", "org/tiny").stdout.strip().endswith(new)
    assert "already at its newest" in llmcli("models", "pull", "org/tiny").stderr


def test_a_broken_connection_is_taken_up_where_it_broke(hub, llmcli, tiny_files):
    commit = hub.add("org/tiny", tiny_files)
    shard = next(name for name in tiny_files if name.startswith("model-00001"))
    hub.cuts[shard] = 30_000
    ended = llmcli("models", "pull", "org/tiny")
    assert ended.returncode == 0, ended.stderr
    assert hub.asked(shard)[-1] == "bytes=30000-"
    assert (snapshot(commit) / shard).read_bytes() == tiny_files[shard]


def test_a_hub_that_sends_the_whole_file_again_is_understood(hub, llmcli, tiny_files):
    commit = hub.add("org/tiny", tiny_files)
    shard = next(name for name in tiny_files if name.startswith("model-00001"))
    hub.cuts[shard], hub.ranges = 30_000, False
    assert llmcli("models", "pull", "org/tiny").returncode == 0
    assert (snapshot(commit) / shard).read_bytes() == tiny_files[shard]


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to a child")
def test_ctrl_c_ends_at_once_and_the_next_start_goes_on(hub, llmcli, tiny_files):
    commit = hub.add("org/tiny", tiny_files)
    shard = next(name for name in tiny_files if name.startswith("model-00001"))
    hub.hold[shard] = 40_000
    child = subprocess.Popen(
        [sys.executable, "-m", "llmcli", "chat", "org/tiny", "-p", "hi", "--max-new-tokens", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert hub.holding.wait(120)
    blobs = hub_cache.repository_dir("org/tiny") / "blobs"
    while sum(path.stat().st_size for path in blobs.glob("*.incomplete")) == 0:  # the client has begun to read
        assert child.poll() is None
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=120)
    hub.release.set()
    assert (child.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert locate("org/tiny", load_registry()).original is None, "a part of a model is not loaded"
    left = sum(path.stat().st_size for path in blobs.glob("*.incomplete"))
    assert 0 < left <= 40_000
    ended = llmcli("chat", "org/tiny", "-p", "hi", "--max-new-tokens", "1")
    assert ended.returncode == 0, ended.stderr
    assert "still to come" in ended.stderr
    assert hub.asked(shard)[-1] == f"bytes={left}-"
    assert (snapshot(commit) / shard).read_bytes() == tiny_files[shard]


def test_a_wrong_left_over_is_dropped_and_fetched_anew(hub, llmcli, tiny_files):
    import hashlib

    commit = hub.add("org/tiny", tiny_files)
    shard = next(name for name in tiny_files if name.startswith("model-00001"))
    blobs = hub_cache.repository_dir("org/tiny") / "blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{hashlib.sha256(tiny_files[shard]).hexdigest()}.incomplete").write_bytes(b"x" * 500)
    assert llmcli("models", "pull", "org/tiny").returncode == 0
    assert (snapshot(commit) / shard).read_bytes() == tiny_files[shard]


def test_a_cache_without_links_holds_each_file_once(hub, llmcli, tiny_files):
    commit = hub.add("org/tiny", tiny_files)
    assert llmcli("models", "pull", "org/tiny", HF_HUB_DISABLE_SYMLINKS="1").returncode == 0
    assert check_directory(snapshot(commit)).checkpoint.params > 0
    assert not any(path.is_symlink() for path in snapshot(commit).rglob("*"))
    kept = [path for path in hub_cache.repository_dir("org/tiny").rglob("*") if path.is_file()]
    assert sum(path.suffix == ".safetensors" or path.parent.name == "blobs" for path in kept) == 5


def test_what_is_missing_of_a_snapshot_is_fetched(hub, llmcli, tiny_files):
    commit = hub.add("org/tiny", tiny_files)
    llmcli("models", "pull", "org/tiny")
    shard = next(name for name in tiny_files if name.startswith("model-00002"))
    (snapshot(commit) / shard).resolve().unlink()
    assert locate("org/tiny", load_registry()).original is None
    assert llmcli("models", "pull", "org/tiny").returncode == 0
    assert (snapshot(commit) / shard).read_bytes() == tiny_files[shard]


def test_a_missing_repository_names_the_nearest_alias(hub, llmcli):
    refused(
        llmcli("models", "pull", "org/smollm2-135"), 3, "'org/smollm2-135'", "private", "Did you mean smollm2-135m?"
    )


def test_a_private_repository_needs_its_token(hub, llmcli, tiny_files):
    hub.add("org/tiny", tiny_files, token="hf_right")
    refused(llmcli("models", "pull", "org/tiny"), 3, "private", "hf auth login")
    assert llmcli("models", "pull", "org/tiny", HF_TOKEN="hf_right").returncode == 0


def test_a_gated_repository_says_where_to_accept_its_licence(hub, llmcli, tiny_files):
    hub.add("org/tiny", tiny_files, gated=True, token="hf_right")
    refused(llmcli("models", "pull", "org/tiny"), 3, "gated", "no token is set", f"{hub.url}/org/tiny", "HF_TOKEN")
    refused(llmcli("models", "pull", "org/tiny", HF_TOKEN="hf_other"), 3, "has no access yet")
    assert hub.asked(".safetensors") == []


def test_a_missing_revision_is_named(hub, llmcli, tiny_files):
    hub.add("org/tiny", tiny_files)
    refused(llmcli("models", "pull", "org/tiny@v9"), 3, "no revision 'v9'")


def test_offline_and_not_in_the_cache_says_both(hub, llmcli, tmp_path):
    refused(llmcli("models", "pull", "org/tiny", HF_HUB_OFFLINE="1"), 3, "HF_HUB_OFFLINE", str(tmp_path / "hf"))
    assert hub.requests == []


def test_a_hub_that_is_out_of_order_or_not_there_is_named(hub, llmcli, tiny_files):
    hub.add("org/tiny", tiny_files)
    hub.status = 503
    refused(llmcli("models", "pull", "org/tiny"), 3, hub.url, "503", "HF_ENDPOINT")
    refused(llmcli("models", "pull", "org/tiny", HF_ENDPOINT="http://127.0.0.1:9"), 3, "cannot be reached")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"adapter_config.json": b"{}", "adapter_model.safetensors": b"x"}, "adapter"),
        ({"model-Q4.gguf": b"x" * 20_000}, "GGUF files only"),
        ({"config.json": b'{"model_type": "llama"}', "model.Q4.gguf": b"x"}, "hf download"),
        ({"model_index.json": b"{}", "unet/model.safetensors": b"x"}, "diffusion"),
        ({"config.json": b'{"model_type": "llama"}', "pytorch_model.bin": b"x"}, "pickled"),
        ({"README.md": b"x"}, "no transformers model"),
        ({"params.json": b"{}", "consolidated.safetensors": b"x"}, "own format"),
        (
            {"config.json": b'{"model_type": "t5", "is_encoder_decoder": true}', "model.safetensors": b"x" * 20_000},
            "separate encoder",
        ),
        (
            {
                "config.json": b'{"model_type": "gpt_oss", "quantization_config": {"quant_method": "mxfp4"}}',
                "model.safetensors": b"x" * 20_000,
            },
            "mxfp4",
        ),
    ],
)
def test_a_repository_of_another_kind_is_refused_before_its_weights(hub, llmcli, files, words):
    hub.add("org/other", files)
    refused(llmcli("models", "pull", "org/other"), 3, words, "org/other")
    assert hub.asked(".safetensors") == hub.asked(".gguf") == hub.asked(".bin") == []


def test_too_small_a_disk_is_told_before_the_weights(hub, llmcli, tiny_files):
    hub.add("org/tiny", tiny_files)
    small = "import shutil, types; shutil.disk_usage = lambda path: types.SimpleNamespace(free=1000)"
    refused(llmcli("models", "pull", "org/tiny", before=small), 4, "fetching org/tiny needs", "HF_HOME")
    assert hub.asked(".safetensors") == []


def test_a_disk_that_fills_up_is_told_and_keeps_what_came(hub, llmcli, tiny_files):
    hub.add("org/tiny", tiny_files)
    full = f"""
import llmcli.models.hub_stream as stream
def full(blob, file, report):
    raise OSError({errno.ENOSPC}, "No space left on device")
stream._stream = full
"""
    refused(llmcli("models", "pull", "org/tiny", before=full), 4, "is full", "HF_HOME")
    assert llmcli("models", "pull", "org/tiny").returncode == 0


def test_a_model_that_memory_cannot_hold_is_refused_before_the_weights(hub, llmcli, tiny_files):
    hub.add("org/tiny", tiny_files)
    before = """
import llmcli.cli.hub_fetching as fetching
from llmcli.errors import OutOfMemory
def refuse(name, weights, options):
    raise OutOfMemory(f"{name} {weights.config['model_type']} {weights.stored_bytes} {weights.stored_dtype}")
fetching.require_memory = refuse
"""
    ended = llmcli("chat", "org/tiny", "-p", "hi", before=before)
    size = sum(len(tiny_files[name]) for name in tiny_files if name.startswith("model-"))
    refused(ended, 4, f"org/tiny llama {size} float32")
    assert hub.asked(".safetensors") == []
    assert llmcli("models", "pull", "org/tiny", before=before).returncode == 0, "pull does not load"


def test_check_covers_hub_models(hub, llmcli, tiny_files):
    commit = hub.add("org/tiny", tiny_files)
    assert llmcli("models", "check", "org/tiny").stdout == "org/tiny: ok, not on this disk\n"
    llmcli("models", "pull", "org/tiny")
    assert "headers complete" in llmcli("models", "check", "org/tiny").stdout
    shard = next(path for path in snapshot(commit).glob("model-*")).resolve()
    shard.write_bytes(shard.read_bytes()[:-5])
    ended = llmcli("models", "check", "org/tiny")
    assert ended.returncode == 3
    assert "5 are missing" in ended.stdout


def test_rm_files_deletes_the_revision_and_leaves_others(hub, llmcli, tiny_files):
    old = hub.add("org/tiny", tiny_files)
    hub.repositories["org/tiny"].references["v1"] = old
    new = hub.add("org/tiny", tiny_files | {"generation_config.json": b'{"temperature": 0.5}'})
    llmcli("models", "pull", "org/tiny@v1")
    llmcli("models", "pull", "org/tiny")
    assert llmcli("models", "add", "mine", "org/tiny").returncode == 0
    ended = llmcli("models", "rm", "mine", "--files")
    assert ended.returncode == 0, ended.stderr
    assert "freed" in ended.stderr
    assert not snapshot(new).exists()
    assert hub_cache.find_snapshot(HubSource("org/tiny", "v1")) == snapshot(old)
    assert check_directory(snapshot(old)).checkpoint.params > 0
    last = llmcli("models", "rm", "org/tiny@v1", "--files")
    assert "0.4 MiB freed" in last.stderr
    assert not hub_cache.repository_dir("org/tiny").exists()
    assert "no files" in llmcli("models", "rm", "org/tiny", "--files").stderr


def test_rm_files_takes_what_a_broken_off_fetch_left(hub, llmcli, tiny_files):
    hub.add("org/tiny", tiny_files)
    full = (
        "import llmcli.models.hub_stream as s\ndef f(*_): raise OSError(28, 'No space left on device')\ns._stream = f"
    )
    assert llmcli("models", "pull", "org/tiny", before=full).returncode == 4
    assert hub_cache.repository_dir("org/tiny").exists()
    assert llmcli("models", "rm", "org/tiny", "--files").returncode == 0
    assert not hub_cache.repository_dir("org/tiny").exists()


def test_rm_files_leaves_what_other_programs_fetched(hub, llmcli, tiny_files):
    mine = hub.add("org/tiny", tiny_files)
    llmcli("models", "pull", "org/tiny")
    folder = hub_cache.repository_dir("org/tiny")
    shared = (snapshot(mine) / "config.json").resolve()
    kept = {
        "b" * 40: ("gguf", ["model-Q4.gguf", "config.json"]),
        "c" * 40: (None, ["config.json", "onnx/model.onnx"]),
        "d" * 40: (None, ["tokenizer.json"]),
        "e" * 40: ("begun", ["config.json", "tokenizer.json"]),
    }
    for commit, (reference, names) in kept.items():
        for name in names:
            path = snapshot(commit) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            blob = shared if name == "config.json" else folder / "blobs" / f"{commit}-{path.name}"
            if name != "config.json":
                blob.write_bytes(b"precious")
            path.symlink_to(os.path.relpath(blob, path.parent))
        if reference:
            (folder / "refs" / reference).write_text(commit)
    (folder / "blobs" / f"{'0' * 64}.1a2b3c4d.incomplete").write_bytes(b"x")
    begun = snapshot("f" * 40)
    begun.mkdir()
    (begun / "config.json").symlink_to(os.path.relpath(shared, begun))
    assert llmcli("models", "rm", "org/tiny", "--files").returncode == 0
    assert not snapshot(mine).exists()
    assert not begun.exists(), "what a broken-off fetch left goes"
    assert not list((folder / "blobs").glob("*.incomplete"))
    for commit, (_, names) in kept.items():
        assert all((snapshot(commit) / name).read_bytes() for name in names)


def test_rm_files_deletes_nothing_while_a_partial_file_is_locked(hub, llmcli, tiny_files):
    import filelock

    commit = hub.add("org/tiny", tiny_files)
    llmcli("models", "pull", "org/tiny")
    folder = hub_cache.repository_dir("org/tiny")
    partial = folder / "blobs" / f"{'0' * 64}.1a2b3c4d.incomplete"
    partial.write_bytes(b"x")
    locks = hub_cache.cache_dir() / ".locks" / folder.name
    with filelock.FileLock(locks / f"{'0' * 64}.lock"):
        refused(llmcli("models", "rm", "org/tiny", "--files"), 1, "another process")
        assert partial.exists()
        assert check_directory(snapshot(commit)).checkpoint.params > 0
    shutil.rmtree(locks)  # no lock is there, so nobody holds one
    assert llmcli("models", "rm", "org/tiny", "--files").returncode == 0
    assert not folder.exists()


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("sha", "../../../../x"),
        ("sha", "main"),
        ("sha", "A" * 40),
        ("sha256", "../../../../../../etc/cron.d/x"),
        ("sha256", "0" * 63),
        ("rfilename", "../config.json"),
        ("rfilename", "additional_chat_templates/../../../x.jinja"),
        ("rfilename", "/etc/x.jinja"),
        ("rfilename", "C:/x.jinja"),
        ("rfilename", "a\\..\\x.jinja"),
        ("rfilename", "a//x"),
        ("rfilename", ".."),
        ("rfilename", "a/.."),
        ("rfilename", "a\nb"),
        ("rfilename", ""),
    ],
)
def test_what_the_hub_tells_is_no_path_out_of_the_cache(hub, tiny_files, monkeypatch, part, value):
    from llmcli.errors import ModelError
    from llmcli.models.hub import look_up

    def falsify(facts):
        if part == "sha":
            facts["sha"] = value
        elif part == "sha256":
            next(file for file in facts["siblings"] if "lfs" in file)["lfs"]["sha256"] = value
        else:
            facts["siblings"].append({"rfilename": value, "size": 3})

    hub.add("org/tiny", tiny_files)
    hub.falsify = falsify
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with pytest.raises(ModelError) as caught:
        look_up(HubSource("org/tiny"))
    assert caught.value.message.startswith("org/tiny: the hub names ")
    assert "\n" not in caught.value.message


def test_a_repository_with_unsafe_names_is_refused_in_one_line(hub, llmcli, tiny_files, tmp_path):
    hub.add("org/tiny", tiny_files | {".gitattributes": b"x", "a..b/..c/d e.txt": b"x"})
    assert llmcli("models", "pull", "org/tiny").returncode == 0
    hub.falsify = lambda facts: facts["siblings"].append({"rfilename": "../x.jinja", "size": 3})
    refused(llmcli("models", "pull", "org/tiny"), 3, "org/tiny: the hub names a file '../x.jinja'")
    assert not list(tmp_path.rglob("x.jinja"))


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("org/name", HubSource("org/name")),
        ("hub:org/name@v1", HubSource("org/name", "v1")),
        ("Qwen/Qwen2.5-0.5B@refs/pr/3", HubSource("Qwen/Qwen2.5-0.5B", "refs/pr/3")),
        ("org/name@../../etc", None),
        ("org/../name", None),
        ("org/na--me", None),
        ("/org/name", None),
        ("./org/name", None),
        ("org", None),
        ("a/b/c", None),
        ("org/name@", None),
        ("org/name@-x", None),
    ],
)
def test_what_reads_as_a_hub_id(text, source):
    assert hub_source(text) == source


def test_the_cache_is_where_the_hubs_own_library_keeps_it(tmp_path, monkeypatch):
    code = "from huggingface_hub import constants; print(constants.HF_HUB_CACHE)"
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in [
        (None, None), ("XDG_CACHE_HOME", tmp_path / "xdg"), ("HF_HOME", "~/hf"), ("HUGGINGFACE_HUB_CACHE", "$HOME/x"),
        ("HF_HUB_CACHE", tmp_path / "hub"),
    ]:  # fmt: skip
        if name:
            monkeypatch.setenv(name, str(value))
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert Path(told.stdout.strip()) == hub_cache.cache_dir()


@pytest.mark.parametrize("gone", ["config.json", "tokenizer.json", "model.safetensors.index.json", "model-00001"])
def test_a_snapshot_that_lacks_a_file_is_not_whole(tmp_path, tiny_files, gone):
    for name, content in tiny_files.items():
        if "/" not in name:
            (tmp_path / name).write_bytes(content)
    assert hub_cache.is_whole(tmp_path)
    next(path for path in tmp_path.iterdir() if path.name.startswith(gone)).unlink()
    assert not hub_cache.is_whole(tmp_path)
    shutil.rmtree(tmp_path)


def test_a_model_on_disk_is_sized_from_its_files(hub, llmcli, tiny_files):
    hub.add("org/tiny", tiny_files)
    llmcli("models", "pull", "org/tiny")
    hub.requests.clear()
    answer = sized(llmcli("estimate-kv", "org/tiny", "--format", "json"))
    assert answer["model"]["architecture"] == "llama"
    assert hub.requests == []


def test_an_entry_of_the_hub_is_fetched_by_its_name(hub, llmcli, tiny_files):
    commit = hub.add("org/tiny", tiny_files)
    assert llmcli("models", "add", "mine", "hub:org/tiny@main", "--context", "64").returncode == 0
    ended = llmcli("chat", "mine", "-p", "hi", "--max-new-tokens", "1", "--json")
    assert ended.returncode == 0, ended.stderr
    model = json.loads(ended.stdout)["model"]
    assert (model["name"], model["source"], model["revision"]) == ("mine", "hub:org/tiny@main", commit)
    assert model["context_limit"] == 64
    assert json.loads(llmcli("models", "show", "mine", "--format", "json").stdout)["revision"] == commit


def sized(ended):
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_a_model_of_the_hub_is_sized_by_its_config_and_headers(hub, llmcli, tiny_files, tmp_path):
    folder = tmp_path / "tiny"
    folder.mkdir()
    weights = {name: content for name, content in tiny_files.items() if name.startswith("model-")}
    for name, content in tiny_files.items():
        if "/" not in name:
            (folder / name).write_bytes(content)
    large = {name: content + bytes(300_000) for name, content in weights.items()}  # more than any header
    commit = hub.add("org/tiny", tiny_files | large)
    answer = sized(llmcli("estimate-kv", "org/tiny", "--format", "json"))
    assert answer["rows"] == sized(llmcli("estimate-kv", str(folder), "--format", "json"))["rows"]
    assert any(commit[:12] in note for note in answer["assumptions"])
    assert not list(snapshot(commit).glob("*.safetensors"))
    for name in weights:
        ranges = hub.asked(name)
        assert ranges
        assert all(asked is not None and asked.partition("-")[2] for asked in ranges), ranges


@pytest.mark.parametrize(
    ("environment", "code", "words"),
    [
        ({"HF_HUB_OFFLINE": "1"}, 3, ["HF_HUB_OFFLINE"]),
        ({"HF_ENDPOINT": "http://127.0.0.1:9"}, 3, ["cannot be reached"]),
    ],
)
def test_a_model_of_the_hub_that_cannot_be_looked_up_is_told(hub, llmcli, environment, code, words):
    refused(llmcli("estimate-kv", "org/tiny", **environment), code, *words)


def test_a_damaged_header_on_the_hub_is_named(hub, llmcli, tiny_files):
    files = {name: bytes(20_000) if name.startswith("model-") else content for name, content in tiny_files.items()}
    hub.add("org/tiny", files)
    refused(llmcli("estimate-kv", "org/tiny"), 3, "header", "damaged")


def test_a_well_known_model_is_sized_without_asking_the_hub(hub, llmcli):
    answer = sized(llmcli("estimate-kv", "Qwen/Qwen3-8B", "--format", "json"))
    assert answer["model"]["params"] == 8_190_735_360
    assert hub.requests == []
