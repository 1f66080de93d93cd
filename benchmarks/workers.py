"""Engines in processes of their own, asked one at a time: who is not asked sleeps in a read and costs nothing.

A measurement is worth what else ran beside it. Every answer therefore says what share of the machine other processes
took meanwhile, so that a disturbed one can be made again.
"""

import contextlib
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from llmcli.errors import LlmcliError

DISTURBED = 0.03
"""The share of the machine that others may take during a measurement."""
_IDLE = 0.1
"""The share up to which a machine is idle, in a tenth of a second that the system counts in ticks of a hundredth."""


class Unavailable(Exception):
    """What was to be measured cannot be; the message says why, in one line."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a worker answered, the seconds that it took, and the share of the machine that others took meanwhile."""

    value: Any
    seconds: float
    others: float


class Worker:
    """`build(*arguments)` in a process of its own; its public methods are called by name.

    threads: of the CPU kernels, None leaves them alone. Raises Unavailable when building fails or takes longer than
    `timeout` seconds. `facts`: the attribute of that name of what was built.
    """

    def __init__(
        self, build: Callable[..., Any], *arguments: Any, threads: int | None = None, timeout: float = 300
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        handle, said = tempfile.mkstemp(prefix="benchmark-", suffix=".log")
        os.close(handle)
        self._said = Path(said)
        self._process = context.Process(target=_serve, args=(theirs, said, build, arguments), daemon=True)
        with _threads(threads):
            self._process.start()
        theirs.close()
        self._seen = psutil.Process(self._process.pid)
        try:
            self.facts: dict[str, Any] = self._receive(timeout)
        except Unavailable:
            self.close()
            raise

    def ask(self, method: str, *arguments: Any, timeout: float = 300) -> Reply:
        """Call a method and wait for what it returns. Raises Unavailable when it raises, dies or takes too long."""
        busy, own, started = _busy(), _own(self._seen), time.perf_counter()
        self._send((method, arguments))
        value = self._receive(timeout)
        seconds = time.perf_counter() - started
        others = _busy() - busy - (_own(self._seen) - own)
        return Reply(value, seconds, max(0.0, others) / seconds / (psutil.cpu_count() or 1))

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            self._pipe.send(None)
        self._process.join(5)
        self._kill()
        self._said.unlink(missing_ok=True)

    def _send(self, request: tuple[str, tuple[Any, ...]]) -> None:
        try:
            self._pipe.send(request)
        except OSError:
            raise Unavailable("its process has ended") from None

    def _receive(self, timeout: float) -> Any:
        try:
            if not self._pipe.poll(timeout):
                self._kill()
                raise Unavailable(f"ended: it took more than {timeout:.0f} s")
            well, value = self._pipe.recv()
        except EOFError:
            self._process.join(5)
            raise Unavailable(f"its process died with exit code {self._process.exitcode}{self._last_word()}") from None
        if not well:
            raise Unavailable(value)
        return value

    def _last_word(self) -> str:
        """The last line that the process wrote."""
        lines = self._said.read_text(encoding="utf-8", errors="replace").split("\n")
        return next((f": {line.strip()[:200]}" for line in reversed(lines) if line.strip()), "")

    def _kill(self) -> None:
        if self._process.is_alive():
            self._process.kill()
            self._process.join(5)


def _serve(pipe: Connection, said: str, build: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """In the child: build, then answer until the other end says or breaks off. What libraries print goes to `said`."""
    with Path(said).open("a", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    built = _answer(pipe, lambda: build(*arguments), lambda made: made.facts)
    while built is not None:
        try:
            request = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        if request is None:
            return
        method, given = request
        _answer(pipe, lambda method=method, given=given: getattr(built, method)(*given), lambda value: value)


def _answer(pipe: Connection, make: Callable[[], Any], shown: Callable[[Any], Any]) -> Any:
    try:
        made = make()
        pipe.send((True, shown(made)))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, the other measurements go on
        pipe.send((False, reason(error)))
        return None
    return made


def reason(error: BaseException) -> str:
    """Why something failed, in one line."""
    if isinstance(error, LlmcliError):
        text = f"{error.message}. {error.hint or ''}"
    else:
        text = str(error) if isinstance(error, Unavailable) else f"{type(error).__name__}: {error}"
    line = " ".join(text.split())
    return line if len(line) <= 300 else f"{line[:299]}…"


def wait_until_idle(patience: float) -> float:
    """Wait until others leave the machine alone, `patience` seconds at most; the seconds that it took."""
    started = time.perf_counter()
    while True:
        busy, since = _busy(), time.perf_counter()
        time.sleep(0.1)
        share = (_busy() - busy) / (time.perf_counter() - since) / (psutil.cpu_count() or 1)
        waited = time.perf_counter() - started
        if share <= _IDLE or waited >= patience:
            return waited


@contextlib.contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """Processes that start inside use `count` threads in OpenMP and MKL."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if count else ()
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, str(count)))
    yield
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


def _busy() -> float:
    """Seconds that all cores together have worked, for whomever; what a hypervisor took away counts as well."""
    times = psutil.cpu_times()
    return sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0)


def _own(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)
