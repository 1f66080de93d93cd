"""`llmcli estimate-kv`: size the KV cache and the weights, and say whether they fit."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from llmcli.cli import options as flags


class SizeFormat(StrEnum):
    """What the command prints."""

    table = "table"
    md = "md"
    csv = "csv"
    json = "json"


class Verification(StrEnum):
    """How a cache is built to compare with."""

    meta = "meta"
    real = "real"


class EstimateCommand(TyperCommand):
    """The command; `--verify` may stand alone and then means `--verify meta`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line."""
        return super().parse_args(ctx, _spelled_out(args))


def _spelled_out(args: list[str]) -> list[str]:
    end = args.index("--") if "--" in args else len(args)
    followers = [*args, ""][1:]
    return [
        "--verify=meta" if i < end and arg == "--verify" and follower.lower() not in set(Verification) else arg
        for i, (arg, follower) in enumerate(zip(args, followers, strict=True))
    ]


def _joined(texts: list[str] | None) -> str | None:
    """A list of numbers that may be given in one piece or by repeating its flag."""
    return ",".join(texts) if texts else None


ModelsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODEL",
        help="Alias, directory, config.json, .gguf file or ORG/NAME on the hub; several are set side by side. "
        "Default: the registry's default.",
    ),
]
EngineOption = Annotated[
    str, typer.Option("--engine", metavar="NAME", help="Who runs the model: transformers, llama.cpp or vllm.")
]
ContextOption = Annotated[
    list[str] | None,
    typer.Option(
        "--context",
        "--ctx",
        metavar="N",
        help="Context lengths in tokens: 4096,32k. Default: 4k,8k,32k, as far as the model goes.",
    ),
]
BatchOption = Annotated[
    list[str] | None,
    typer.Option("--batch", metavar="N", help="Numbers of sequences of that length at once: 1,8. Default: 1."),
]
MixOption = Annotated[
    list[str] | None,
    typer.Option("--mix", metavar="N", help="What requests of these lengths take at once: 800,40k,180000."),
]
PromptFileOption = Annotated[
    Path | None,
    typer.Option(
        "--prompt-file", metavar="FILE", help="Count the tokens of a text; they are the context if none is given."
    ),
]
KvDtypeOption = Annotated[
    str,
    typer.Option(
        "--kv-dtype",
        metavar="NAME",
        help="Format of the KV cache: auto (the weights'), bf16, fp8, q8_0 and others, by engine.",
    ),
]
QuantOption = Annotated[
    str,
    typer.Option(
        "--quant",
        metavar="NAME",
        help="Quantized weights: none, int8, nf4, fp4, int4 (on a CPU); other engines have other names.",
    ),
]
VramOption = Annotated[
    list[str] | None,
    typer.Option(
        "--vram",
        metavar="SIZE",
        help="Does it fit? 24GiB or 24GB; 2x24GiB or 24GiB,16GiB for two GPUs; auto: what yours have free.",
    ),
]
OverheadOption = Annotated[
    str | None,
    typer.Option(
        "--overhead", metavar="SIZE", help="What the runtime itself takes on each GPU. Default: the engine's."
    ),
]
PrefillChunkOption = Annotated[
    str | None, typer.Option("--prefill-chunk", metavar="N", help="Prompt tokens per forward. Default: the engine's.")
]
BandwidthOption = Annotated[
    str | None,
    typer.Option(
        "--bandwidth", metavar="RATE", help="How fast can decode be with this memory? Bytes per second: 400GB/s."
    ),
]
SizeFormatOption = Annotated[
    SizeFormat,
    typer.Option(
        "--format", metavar="NAME", case_sensitive=False, help="table or md for people, csv or json for programs."
    ),
]
PlotOption = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw bytes over context: .png, .svg or .pdf. Needs the extra `plot`."),
]
VerifyOption = Annotated[
    Verification | None,
    typer.Option(
        "--verify",
        metavar="HOW",
        case_sensitive=False,
        help="Load torch, build the cache (meta: shapes only, the default; real) and compare.",
    ),
]


def estimate_kv(
    models: ModelsArgument = None,
    *,
    engine: EngineOption = "transformers",
    context: ContextOption = None,
    batch: BatchOption = None,
    mix: MixOption = None,
    prompt_file: PromptFileOption = None,
    kv_dtype: KvDtypeOption = "auto",
    dtype: flags.DtypeOption = "auto",
    quant: QuantOption = "none",
    vram: VramOption = None,
    overhead: OverheadOption = None,
    prefill_chunk: PrefillChunkOption = None,
    bandwidth: BandwidthOption = None,
    output: SizeFormatOption = SizeFormat.table,
    plot: PlotOption = None,
    verify: VerifyOption = None,
    registry: flags.RegistryOption = None,
) -> None:
    """Does a model fit, how long a context, and what to change? Sizes KV cache and weights without loading it."""
    from llmcli.cli.size_flags import SizeFlags  # its imports take longer than showing --help may
    from llmcli.cli.sizing import Output, Sizing, answer

    lengths, numbers, requests, sizes = map(_joined, (context, batch, mix, vram))
    asked = SizeFlags(
        engine, lengths, numbers, requests, sizes, kv_dtype, dtype, quant, overhead, prefill_chunk, bandwidth
    )
    answer(Sizing(tuple(models or ()), registry, asked, prompt_file, verify), Output(output, plot))
