"""One estimate from flags to output."""

from pathlib import Path

from llmcli import console
from llmcli.cli.options import TableFormat
from llmcli.errors import UsageError
from llmcli.estimate import render
from llmcli.estimate.dtypes import parse_dtype
from llmcli.estimate.plan import estimate
from llmcli.estimate.request import SizeRequest
from llmcli.estimate.sources import find
from llmcli.inference import Quant
from llmcli.load_rules import refuse_quant
from llmcli.units import parse_bytes, parse_tokens

_MAX_BATCH = 2**20
_MAX_TOKENS = 2**40
_MAX_DIGITS = 40


def size_request(
    context: str | None, batch: str, *, kv_dtype: str, dtype: str, quant: Quant, vram: str | None
) -> SizeRequest:
    """The flags of `estimate-kv` as a request. Raises UsageError naming the flag and what is allowed."""
    weights_dtype = parse_dtype(dtype, "--dtype")
    refuse_quant(quant, weights_dtype or "auto", "cpu")
    return SizeRequest(
        contexts=None if context is None else _contexts(context),
        batches=_batches(batch),
        dtype=weights_dtype,
        kv_dtype=parse_dtype(kv_dtype, "--kv-dtype"),
        quant=quant,
        vram=None if vram is None else (parse_bytes(vram, "--vram"),),
    )


def show_estimate(model: str | None, registry: Path | None, request: SizeRequest, output: TableFormat) -> None:
    """Size the model and print the answer."""
    subject = find(model, registry)
    answer = estimate(subject, request)
    if output is TableFormat.json:
        console.write_json(answer)
    else:
        render.show_table(answer, subject.architecture)


def _contexts(text: str) -> tuple[int, ...]:
    lengths = [parse_tokens(part, "--context") for part in text.split(",")]
    for length in lengths:
        if length > _MAX_TOKENS:
            raise UsageError(f"--context {length} is too large", f"Ask for at most {_MAX_TOKENS} tokens.")
    return tuple(dict.fromkeys(lengths))


def _batches(text: str) -> tuple[int, ...]:
    sizes = []
    for part in text.split(","):
        number = part.strip()[:_MAX_DIGITS]
        if not (number.isascii() and number.isdigit() and 1 <= int(number) <= _MAX_BATCH):
            raise UsageError(
                f"--batch {part!r} is no number of sequences", f"Write whole numbers from 1 to {_MAX_BATCH}: 1,4."
            )
        sizes.append(int(number))
    return tuple(dict.fromkeys(sizes))
