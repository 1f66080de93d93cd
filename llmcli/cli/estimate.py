"""`llmcli estimate-kv`: size the KV cache and the weights, and say whether they fit."""

from enum import StrEnum
from typing import Annotated

import typer

from llmcli.cli import options as flags


class SizedQuant(StrEnum):
    """What can be sized without a device to load on: `auto` would depend on it."""

    none = "none"
    int8 = "int8"
    nf4 = "nf4"
    fp4 = "fp4"


QuantOption = Annotated[SizedQuant, typer.Option("--quant", help="Size weights that are quantized on load.")]
SizedArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        help="Alias, directory, config.json, .gguf file or ORG/NAME on the hub. Default: the registry's default.",
    ),
]
ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="N,…",
        help="Context lengths in tokens: 4096,32k. Default: 4k,8k,32k, as far as the model goes.",
    ),
]
BatchOption = Annotated[str, typer.Option("--batch", metavar="N,…", help="Numbers of sequences at once.")]
KvDtypeOption = Annotated[
    str, typer.Option("--kv-dtype", metavar="NAME", help="Of the KV cache: auto (the weights'), bf16, fp16, fp32.")
]
VramOption = Annotated[
    str | None,
    typer.Option("--vram", metavar="SIZE", help="Memory of the device: 24GiB, 24GB. Does it fit, and what is longest?"),
]


def estimate_kv(
    model: SizedArgument = None,
    *,
    context: ContextOption = None,
    batch: BatchOption = "1",
    kv_dtype: KvDtypeOption = "auto",
    dtype: flags.DtypeOption = "auto",
    quant: QuantOption = SizedQuant.none,
    vram: VramOption = None,
    output: flags.FormatOption = flags.TableFormat.table,
    registry: flags.RegistryOption = None,
) -> None:
    """Size the KV cache and the weights of a model, without loading it."""
    from llmcli.cli.sizing import show_estimate, size_request  # its imports take longer than showing --help may

    request = size_request(context, batch, kv_dtype=kv_dtype, dtype=dtype, quant=quant.value, vram=vram)
    show_estimate(model, registry, request, output)
