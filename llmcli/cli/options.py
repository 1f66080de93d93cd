"""The flags that chat and bench share, and their checks: everything is refused before anything loads."""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from llmcli.errors import UsageError
from llmcli.inference import DecodeChoice as DecodeName
from llmcli.inference import QuantChoice as QuantName
from llmcli.inference import SamplingOptions
from llmcli.inference import Speculation as SpeculationName
from llmcli.kv_rules import refuse_kv
from llmcli.load_rules import (
    parse_device,
    parse_dtype,
    refuse_graph,
    refuse_quant,
    refuse_speculation,
    refuse_spread,
    require_bitsandbytes,
)
from llmcli.ranks import refuse_together, world
from llmcli.sampling_rules import MAX_NEW_TOKENS, broken_rule


class Quant(StrEnum):
    """Weight quantization."""

    auto = "auto"
    none = "none"
    int8 = "int8"
    nf4 = "nf4"
    fp4 = "fp4"
    int4 = "int4"


class Decode(StrEnum):
    """Decode path."""

    auto = "auto"
    eager = "eager"
    graph = "graph"
    compiled = "compiled"


class Speculate(StrEnum):
    """Where drafts come from without a draft model."""

    none = "none"
    ngram = "ngram"


class DeviceMap(StrEnum):
    """How a model is laid out."""

    none = "none"
    auto = "auto"


class TableFormat(StrEnum):
    """What a command prints."""

    table = "table"
    json = "json"


class Stats(StrEnum):
    """How much is shown after an answer."""

    off = "off"
    line = "line"
    full = "full"


_SPEED = "Speed and memory"


def _speed(name: str, help_text: str, metavar: str | None = None) -> Any:
    return typer.Option(f"--{name}", metavar=metavar, help=help_text, rich_help_panel=_SPEED)


ModelArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        help="Alias in models.toml, directory, .gguf file, or ORG/NAME[@REVISION] on the hub. Default: the registry's.",
    ),
]
QuantOption = Annotated[
    Quant,
    typer.Option(
        "--quant", help="Quantize weights on load. auto: those of a 4-bit GGUF, to nf4 on CUDA, to int4 on a CPU."
    ),
]
DtypeOption = Annotated[
    str, typer.Option("--dtype", metavar="NAME", help="auto (the checkpoint's), float32, bfloat16 or float16.")
]
DeviceOption = Annotated[str, typer.Option("--device", metavar="NAME", help="auto, cpu, mps, cuda or cuda:N.")]
RegistryOption = Annotated[
    Path | None,
    typer.Option("--registry", metavar="FILE", help="Your models.toml, instead of the one in the config directory."),
]
DecodeOption = Annotated[Decode, _speed("decode", "How tokens are made. auto: what is known to be fastest here.")]
SpeculateOption = Annotated[Speculate, _speed("speculate", "ngram: draft tokens from what the prompt says already.")]
DraftOption = Annotated[str | None, _speed("draft", "A small model that drafts tokens.", "MODEL")]
PrefillChunkOption = Annotated[int | None, _speed("prefill-chunk", "Prompt tokens per forward.", "N")]
KvDtypeOption = Annotated[
    str,
    _speed(
        "kv-dtype",
        "What K and V are kept in: auto (the model's dtype), or fp8, int8, int4, which are lossy.",
        "NAME",
    ),
]
KvOffloadOption = Annotated[bool, _speed("kv-offload", "Keep K and V in main memory (CUDA).", "")]
DeviceMapOption = Annotated[DeviceMap, _speed("device-map", "auto: spread the layers over all GPUs, then the CPU.")]
FormatOption = Annotated[TableFormat, typer.Option("--format", help="table for people, json for programs.")]


PromptOption = Annotated[str | None, typer.Option("--prompt", "-p", metavar="TEXT", help="The message.")]
FileOption = Annotated[
    list[Path] | None,
    typer.Option("--file", "-f", metavar="FILE", help="A text file to put before the message; repeatable."),
]
SystemOption = Annotated[str | None, typer.Option("--system", "-s", metavar="TEXT", help="The system message.")]
JsonOption = Annotated[
    bool, typer.Option("--json", metavar="", help="Print the request record, answer included, as JSON.")
]
NoStreamOption = Annotated[bool, typer.Option("--no-stream", metavar="", help="Show the answer when it is complete.")]
PlainOption = Annotated[
    bool, typer.Option("--plain", metavar="", help="Show the answer as it is written, without laying out Markdown.")
]
ExplainOption = Annotated[
    bool, typer.Option("--explain", metavar="", help="Define every figure, with the numbers put in.")
]
CtxOption = Annotated[
    int | None, typer.Option("--ctx", metavar="N", help="Upper bound on prompt and answer, in tokens.")
]

NoLogOption = Annotated[
    bool, typer.Option("--no-log", metavar="", help="Do not keep the request's figures in the log.")
]

StatsOption = Annotated[Stats, typer.Option("--stats", help="What to print on stderr after the answer.")]

_SAMPLING = "Sampling (default: models.toml, then generation_config.json, then greedy)"


def _sampling(name: str, metavar: str, help_text: str) -> Any:
    return typer.Option(f"--{name}", metavar=metavar, help=help_text, rich_help_panel=_SAMPLING)


TemperatureOption = Annotated[float | None, _sampling("temperature", "X", "0 takes the most likely token.")]
TopPOption = Annotated[float | None, _sampling("top-p", "X", "Keep the likeliest tokens up to this sum; 1 is off.")]
TopKOption = Annotated[int | None, _sampling("top-k", "N", "Keep the N likeliest tokens; 0 is off.")]
MinPOption = Annotated[float | None, _sampling("min-p", "X", "Keep tokens from this share of the best; 0 is off.")]
RepetitionPenaltyOption = Annotated[
    float | None, _sampling("repetition-penalty", "X", "Above 1 makes repeats less likely.")
]
SeedOption = Annotated[int | None, _sampling("seed", "N", "Makes sampling repeatable.")]
StopOption = Annotated[list[str] | None, _sampling("stop", "TEXT", "End the answer before this text; repeatable.")]
MaxNewTokensOption = Annotated[
    int | None, _sampling("max-new-tokens", "N", f"Longest answer. Default: {MAX_NEW_TOKENS}.")
]


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """What the model flags say. context: an upper bound in tokens, or None. registry: the user's own models.toml.

    tokens: how many each sequence will hold, None where that is not known. batch: sequences at once.
    weights_only: do without a tokenizer, when only ids are fed. draft: the name of a model. The others are those of
    `LoadRequest`.
    """

    quant: QuantName = "auto"
    dtype: str = "auto"
    device: str = "auto"
    context: int | None = None
    weights_only: bool = False
    registry: Path | None = None
    decode: DecodeName = "auto"
    speculate: SpeculationName = "none"
    draft: str | None = None
    kv_dtype: str = "auto"
    kv_offload: bool = False
    prefill_chunk: int | None = None
    spread: bool = False
    tokens: int | None = None
    batch: int = 1

    @property
    def drafting(self) -> bool:
        """Whether tokens are to be drafted, by whatever."""
        return self.speculate != "none" or self.draft is not None


def check_model_options(options: ModelOptions) -> ModelOptions:
    """The model flags. Raises UsageError naming the flag, its value and what is allowed."""
    kind, _ = parse_device(options.device)
    refuse_quant(options.quant, parse_dtype(options.dtype), kind)
    require_bitsandbytes(options.quant)
    refuse_graph(options.decode, kind)
    refuse_speculation(options.speculate, options.draft, options.decode)
    if options.spread:
        refuse_spread(options.device, options.quant)
    refuse_kv(
        options.kv_dtype,
        offload=options.kv_offload,
        drafting=options.drafting,
    )
    refuse_together(
        quant=options.quant,
        device=options.device,
        decode=options.decode,
        spread=options.spread,
        drafting=options.drafting,
    )
    for flag, count in (("--ctx", options.context), ("--prefill-chunk", options.prefill_chunk)):
        if count is not None and count < 1:
            raise UsageError(f"{flag} {count} is not allowed", "Allowed: a whole number of tokens from 1.")
    return options if world() == 1 else replace(options, quant="none", decode="eager")


def check_sampling(options: SamplingOptions) -> SamplingOptions:
    """The options as they were given. Raises UsageError naming flag, value and what is allowed."""
    for name in SamplingOptions.__dataclass_fields__:
        value = getattr(options, name)
        if value is not None and (allowed := broken_rule(name, value)):
            flag = "--" + name.replace("_", "-")
            raise UsageError(f"{flag} {value:g} is not allowed", f"Allowed: {allowed}.")
    return options


def check_stops(stops: list[str] | None) -> tuple[str, ...]:
    """The stop texts. Raises UsageError for an empty one."""
    if "" in (stops or ()):
        raise UsageError("--stop '' is not allowed", "Give a text of at least one character.")
    return tuple(stops or ())
