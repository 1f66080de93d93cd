"""The processes of one command that `torchrun` starts: how many, and which this is. Standard library only.

The first one talks: it reads the prompt, samples, shows and logs. The others hold their part of every layer, run the
forwards that it announces, and say nothing.
"""

import os
import time

from llmcli.errors import UsageError


def world() -> int:
    """The number of processes that share a model; 1 where torchrun started none."""
    return int(os.environ["WORLD_SIZE"]) if "TORCHELASTIC_RUN_ID" in os.environ else 1


def rank() -> int:
    """Which of them this is; the one that talks is 0."""
    return int(os.environ["RANK"]) if world() > 1 else 0


def local_rank() -> int:
    """Which of those on this machine, and so the number of its GPU."""
    return int(os.environ["LOCAL_RANK"]) if world() > 1 else 0


def local_world() -> int:
    """How many of them are on this machine."""
    return int(os.environ["LOCAL_WORLD_SIZE"]) if world() > 1 else 1


def hush() -> None:
    """Read nothing and write nothing, unless this is the one that talks."""
    if rank() == 0:
        return
    for number, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        os.dup2(os.open(os.devnull, mode), number)


def linger(code: int) -> None:
    """Before a process that says nothing fails: give the one that talks time to say why. code: the exit code.

    torchrun ends all processes as soon as one has failed.
    """
    if code and rank() > 0:
        time.sleep(_LINGER)


_LINGER = 3.0


def refuse_together(*, quant: str, device: str, decode: str, spread: bool, drafting: bool) -> None:
    """Raise UsageError, under torchrun, for what several processes cannot do with one model."""
    if world() == 1:
        return
    wrong = {
        f"--quant {quant}": quant not in {"auto", "none"},
        f"--device {device}": device not in {"auto", "cpu", "cuda"},
        f"--decode {decode}": decode not in {"auto", "eager"},
        "--device-map auto": spread,
        "--speculate or --draft": drafting,
    }
    for setting in (name for name, is_wrong in wrong.items() if is_wrong):
        raise UsageError(
            f"{setting} does not go with tensor parallelism: torchrun started {world()} processes for one model",
            "Leave it out, or start llmcli without torchrun.",
        )
