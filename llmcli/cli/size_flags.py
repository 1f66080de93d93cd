"""The flags of `estimate-kv` that say what to size, from text to a request."""

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from llmcli.cli.lists import MOST, parts, shown
from llmcli.cli.vram import own_gpus
from llmcli.errors import UsageError
from llmcli.estimate.dtypes import parse_dtype
from llmcli.estimate.engines.named import ENGINES
from llmcli.estimate.engines.rules import Engine
from llmcli.estimate.quants import check_quant
from llmcli.estimate.report import GpuPart
from llmcli.estimate.request import SizeRequest
from llmcli.inference import Quant
from llmcli.load_rules import refuse_quant
from llmcli.units import bytes_text, parse_bytes, parse_tokens

_MAX_BATCH = 2**20
_MAX_TOKENS = 2**40
_MAX_DIGITS = 40
_ZERO = re.compile(r"\s*0+(\.0*)?\s*([kmgt]?i?b)?\s*", re.ASCII | re.IGNORECASE)
_PER_SECOND = re.compile(r"\s*(/\s*s|ps)\s*$", re.IGNORECASE)
_BITS = re.compile(r"[KMGT]i?b\b|bit")
_SEVERAL = re.compile(r"\s*([0-9]{1,3})\s*[x×]\s*(.+)", re.ASCII | re.IGNORECASE)
_DECIMAL = re.compile(
    r"(?:^|[x×,\s])((?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9][0-9_]*)(?:\.[0-9]+)?)\s*GB", re.ASCII | re.IGNORECASE
)
_LEAST_BANDWIDTH = 10**6


@dataclass(frozen=True, slots=True)
class SizeFlags:
    """What was written behind each flag."""

    engine: str
    context: str | None
    batch: str | None
    mix: str | None
    vram: str | None
    kv_dtype: str
    dtype: str
    quant: str
    overhead: str | None
    prefill_chunk: str | None
    bandwidth: str | None


@dataclass(frozen=True, slots=True)
class Question:
    """What to size, for which engine. gpus: those that `--vram auto` has found. notice: how a flag was understood."""

    engine: Engine
    request: SizeRequest
    gpus: tuple[GpuPart, ...] = ()
    notice: str | None = None


def question(flags: SizeFlags) -> Question:
    """The flags read. Raises UsageError naming the flag and what is allowed."""
    engine = _engine(flags.engine)
    dtype = parse_dtype(flags.dtype, "--dtype")
    found = own_gpus() if flags.vram is not None and flags.vram.strip().lower() == "auto" else ()
    request = SizeRequest(
        contexts=None if flags.context is None else tuple(dict.fromkeys(_lengths(flags.context, "--context"))),
        batches=(1,) if flags.batch is None else _batches(flags.batch),
        mix=() if flags.mix is None else _lengths(flags.mix, "--mix"),
        dtype=dtype,
        kv_dtype=_kv_dtype(flags.kv_dtype, engine),
        quant=_quant(flags.quant, engine, dtype),
        vram=tuple(gpu.free_bytes for gpu in found) or _vram(flags.vram),
        overhead=None if flags.overhead is None else _overhead(flags.overhead),
        prefill_chunk=None if flags.prefill_chunk is None else _length(flags.prefill_chunk, "--prefill-chunk"),
        bandwidth=None if flags.bandwidth is None else _bandwidth(flags.bandwidth),
    )
    return Question(engine, request, found, _decimal(flags.vram))


def _decimal(vram: str | None) -> str | None:
    """Cards are sold in GB and have as many GiB; who writes GB means less than that."""
    card = _DECIMAL.search(vram or "")
    if card is None:
        return None
    size = bytes_text(parse_bytes(f"{card[1]}GB", "--vram"))
    return f"{card[1]}GB is {size}; a card sold as {card[1]} GB has {card[1]} GiB: --vram {card[1]}GiB"


def _quoted(text: str) -> str:
    return repr(shown(text))


def _engine(name: str) -> Engine:
    written = name.strip().lower()
    engine = ENGINES.get("llama.cpp" if re.sub("[-_. ]", "", written) == "llamacpp" else written)
    if engine is None:
        more = " Ollama and LM Studio run llama.cpp." if written in {"ollama", "lmstudio", "lm-studio"} else ""
        raise UsageError(f"--engine {_quoted(name)} is not known", f"Allowed: {', '.join(ENGINES)}.{more}")
    return engine


def _kv_dtype(text: str, engine: Engine) -> str | None:
    if text.strip().lower() == "auto":
        return None
    try:
        engine.kv_format(text)
    except UsageError as error:
        others = [other.name for other in ENGINES.values() if _has(other, text)]
        if others:
            error.hint = f"{error.hint or ''} {text.strip()} is for --engine {' or '.join(others)}.".lstrip()
        raise
    return text.strip()


def _has(engine: Engine, kv_dtype: str) -> bool:
    with suppress(UsageError):
        engine.kv_format(kv_dtype)
        return True
    return False


def _quant(text: str, engine: Engine, dtype: str | None) -> str:
    name = check_quant(text, engine.name)
    if engine.name == "transformers":
        refuse_quant(cast("Quant", name), dtype or "auto", "cpu")
    return name


def _lengths(text: str, flag: str) -> tuple[int, ...]:
    return tuple(_length(part, flag) for part in parts(text, flag))


def _length(text: str, flag: str) -> int:
    length = parse_tokens(text, flag)
    if length > _MAX_TOKENS:
        raise UsageError(f"{flag} {length} is too large", f"Ask for at most {_MAX_TOKENS} tokens.")
    return length


def _batches(text: str) -> tuple[int, ...]:
    sizes = []
    for part in parts(text, "--batch"):
        number = part.strip()[:_MAX_DIGITS]
        if not (number.isascii() and number.isdigit() and 1 <= int(number) <= _MAX_BATCH):
            raise UsageError(
                f"--batch {_quoted(part)} is no number of sequences",
                f"Write whole numbers from 1 to {_MAX_BATCH}: 1,4.",
            )
        sizes.append(int(number))
    return tuple(dict.fromkeys(sizes))


def _vram(text: str | None) -> tuple[int, ...] | None:
    """One size, which may have commas between its digits, or one per GPU."""
    if text is None:
        return None
    several = _SEVERAL.fullmatch(text)
    if several and 1 <= int(several[1]) <= MOST:
        return (parse_bytes(several[2], "--vram"),) * int(several[1])
    try:
        return (parse_bytes(text, "--vram"),)
    except UsageError as error:
        if "," not in text:
            hint = f"{error.hint} One per GPU: 24GiB,24GiB or 2x24GiB; yours: auto."
            raise UsageError(error.message, hint) from None
    return tuple(parse_bytes(part, "--vram") for part in parts(text, "--vram"))


def _overhead(text: str) -> int:
    return 0 if _ZERO.fullmatch(text) else parse_bytes(text, "--overhead")


def _bandwidth(text: str) -> float:
    size = _PER_SECOND.sub("", text)
    rate = None
    with suppress(UsageError):
        rate = parse_bytes(size, "--bandwidth")
    if rate is None or rate < _LEAST_BANDWIDTH or _BITS.search(size):
        raise UsageError(
            f"--bandwidth {_quoted(text)} is no bandwidth of a memory",
            "Write bytes, not bits, per second, from 1MB/s: 400GB/s (400·10⁹), 3.35TB/s.",
        )
    return float(rate)
