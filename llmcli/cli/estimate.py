"""`llmcli estimate-kv`: size the KV cache and the weights, and say whether they fit."""

from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from llmcli import console
from llmcli.errors import UsageError
from llmcli.estimate import render
from llmcli.estimate.dtypes import parse_dtype
from llmcli.estimate.plan import ENGINE, SizeRequest, estimate
from llmcli.estimate.sources import find
from llmcli.inference import Quant
from llmcli.units import parse_bytes, parse_tokens

_MAX_BATCH = 2**20
_MAX_TOKENS = 2**40
_MAX_TEXT = 40


class Format(StrEnum):
    """How the answer is written."""

    table = "table"
    json = "json"


def estimate_kv(
    model: Annotated[
        str | None, typer.Argument(help="Alias, directory, config.json or .gguf file.", metavar="MODEL")
    ] = None,
    *,
    context: Annotated[
        str | None, typer.Option(help="Context lengths in tokens, comma-separated: 4096,32k. Default: 4k,8k,32k.")
    ] = None,
    batch: Annotated[str, typer.Option(help="Numbers of sequences at once, comma-separated.")] = "1",
    kv_dtype: Annotated[
        str, typer.Option(help="Number format of the KV cache: auto (the weights'), bf16, fp16, fp32.")
    ] = "auto",
    dtype: Annotated[
        str, typer.Option(help="Number format of the weights: auto (the model's), bf16, fp16, fp32.")
    ] = "auto",
    quant: Annotated[Quant, typer.Option(help="Quantization of the weights.")] = "none",
    vram: Annotated[
        str | None,
        typer.Option(help="Memory of the device, such as 24GB or 24GiB: does it fit, and up to which context?"),
    ] = None,
    format: Annotated[Format, typer.Option(help="How the answer is written.")] = Format.table,  # noqa: A002 - the flag's name
    registry: Annotated[Path | None, typer.Option(help="Your models.toml.", metavar="FILE")] = None,
) -> None:
    """Size the KV cache and the weights of a model, without loading it."""
    request = SizeRequest(
        contexts=None if context is None else _contexts(context),
        batches=_batches(batch),
        dtype=parse_dtype(dtype, "--dtype"),
        kv_dtype=parse_dtype(kv_dtype, "--kv-dtype"),
        quant=quant,
        vram=None if vram is None else parse_bytes(_short(vram, "--vram"), "--vram"),
    )
    subject = find(model, registry)
    answer = estimate(subject, request, version(ENGINE))
    if format is Format.json:
        console.write(render.as_json(answer))
    else:
        render.show_table(answer, subject.architecture)


def _contexts(text: str) -> tuple[int, ...]:
    lengths = [parse_tokens(_short(part, "--context"), "--context") for part in text.split(",")]
    for length in lengths:
        if length > _MAX_TOKENS:
            raise UsageError(f"--context {length} is too large", f"Ask for at most {_MAX_TOKENS} tokens.")
    return tuple(dict.fromkeys(lengths))


def _batches(text: str) -> tuple[int, ...]:
    sizes = []
    for part in text.split(","):
        number = _short(part, "--batch").strip()
        if not (number.isascii() and number.isdigit() and 1 <= int(number) <= _MAX_BATCH):
            raise UsageError(
                f"--batch {part!r} is no number of sequences", f"Write whole numbers from 1 to {_MAX_BATCH}: 1,4."
            )
        sizes.append(int(number))
    return tuple(dict.fromkeys(sizes))


def _short(text: str, flag: str) -> str:
    if len(text) > _MAX_TEXT:
        raise UsageError(f"{flag}: {text[:_MAX_TEXT]}… is too long for a number")
    return text
