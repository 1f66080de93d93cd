"""The flags of `bench` that take several values, from text to the tests that they make."""

from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from llmcli.bench.plan import Grid, Plan
from llmcli.cli.lists import parts, shown
from llmcli.cli.options import Decode, Quant
from llmcli.errors import UsageError
from llmcli.units import parse_tokens

MOST_TESTS = 200
_MAX_TOKENS = 2**24
MAX_BATCH = 1024

Choice = TypeVar("Choice", Decode, Quant)


@dataclass(frozen=True, slots=True)
class GridFlags:
    """What was written behind each flag, which may be given several times; None where it was not given."""

    prompt_len: list[str] | None
    out_len: list[str] | None
    depth: list[str] | None
    batch: list[str] | None
    decode: list[str] | None
    quant: list[str] | None


@dataclass(frozen=True, slots=True)
class Asked:
    """What is measured with each load of the model, and the loads: pairs of a quantization and a decode path."""

    plans: tuple[Plan, ...]
    loads: tuple[tuple[Quant, Decode], ...]


def asked_tests(flags: GridFlags, *, repeats: int, warmup: int) -> Asked:
    """Every combination of what the flags say. Raises UsageError naming the flag, its value and what is allowed."""
    grid = Grid(
        _counts(_text(flags.prompt_len, "512"), "--prompt-len", 1, _MAX_TOKENS),
        _counts(_text(flags.out_len, "128"), "--out-len", 1, _MAX_TOKENS),
        _counts(_text(flags.depth, "0"), "--depth", 0, _MAX_TOKENS),
        _counts(_text(flags.batch, "1"), "--batch", 1, MAX_BATCH),
    )
    quants = _choices(_text(flags.quant, "auto"), "--quant", Quant)
    decodes = _choices(_text(flags.decode, "auto"), "--decode", Decode)
    number = grid.size * len(quants) * len(decodes)
    if number > MOST_TESTS:
        raise UsageError(
            f"--prompt-len, --out-len, --depth, --batch, --decode and --quant make {number} tests together",
            f"Allowed: at most {MOST_TESTS}; give fewer values.",
        )
    return Asked(grid.plans(repeats, warmup), tuple((quant, decode) for quant in quants for decode in decodes))


def _text(given: list[str] | None, default: str) -> str:
    return ",".join(given) if given else default


def _counts(text: str, flag: str, least: int, most: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(_count(part.strip(), flag, least, most) for part in parts(text, flag)))


def _count(text: str, flag: str, least: int, most: int) -> int:
    count = 0 if text and not text.strip("0") else None
    with suppress(UsageError):
        count = parse_tokens(text, flag)
    if count is None or not least <= count <= most:
        raise UsageError(
            f"{flag} {shown(text) or repr(text)} is not allowed",
            f"Allowed: whole numbers from {least} to {most}, several with commas: 1,4, and 4k for 4096.",
        )
    return count


def _choices(text: str, flag: str, kind: type[Choice]) -> tuple[Choice, ...]:
    found = []
    for part in parts(text, flag, "values"):
        name = part.strip()
        if name not in set(kind):
            raise UsageError(
                f"{flag} {shown(name) or repr(name)} is not known",
                f"Allowed: {', '.join(kind)}; several with commas.",
            )
        found.append(kind(name))
    return tuple(dict.fromkeys(found))
