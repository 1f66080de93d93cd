"""`llmcli bench`: time prefill and decode."""

from dataclasses import replace
from typing import Annotated

import typer

from llmcli import ranks
from llmcli.bench.plan import longest
from llmcli.cli import options as flags
from llmcli.cli.bench_flags import GridFlags, asked_tests

_LISTS = "What is measured: every combination of lists like 128,4k"

PromptLenOption = Annotated[
    list[str] | None,
    typer.Option(
        "--prompt-len", metavar="N,…", help="Prompt: exactly N random ids. Default: 512.", rich_help_panel=_LISTS
    ),
]
OutLenOption = Annotated[
    list[str] | None,
    typer.Option(
        "--out-len",
        metavar="N,…",
        help="Answer: exactly N ids, whatever they are. Default: 128.",
        rich_help_panel=_LISTS,
    ),
]
DepthOption = Annotated[
    list[str] | None,
    typer.Option(
        "--depth",
        metavar="N,…",
        help="Tokens that the cache holds before the prompt. Default: 0.",
        rich_help_panel=_LISTS,
    ),
]
BatchOption = Annotated[
    list[str] | None,
    typer.Option(
        "--batch", metavar="N,…", help="Sequences at once; rates are their totals. Default: 1.", rich_help_panel=_LISTS
    ),
]
DecodeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--decode",
        metavar="NAME,…",
        help=f"How tokens are made: {', '.join(flags.Decode)}. Default: auto, what is known to be fastest here.",
        rich_help_panel=_LISTS,
    ),
]
QuantOption = Annotated[
    list[str] | None,
    typer.Option(
        "--quant",
        metavar="NAME,…",
        help=f"What weights are quantized to on load: {', '.join(flags.Quant)}. "
        "Default: auto, those of a 4-bit GGUF to nf4 on CUDA, to int4 on a CPU.",
        rich_help_panel=_LISTS,
    ),
]
RepeatsOption = Annotated[int, typer.Option("--repeats", metavar="N", help="Measured repetitions of each test.")]
WarmupOption = Annotated[int, typer.Option("--warmup", metavar="N", help="Repetitions before them, not measured.")]


def bench(
    model: flags.ModelArgument = None,
    *,
    prompt_len: PromptLenOption = None,
    out_len: OutLenOption = None,
    depth: DepthOption = None,
    batch: BatchOption = None,
    decode: DecodeOption = None,
    quant: QuantOption = None,
    repeats: RepeatsOption = 5,
    warmup: WarmupOption = 1,
    output: flags.FormatOption = flags.TableFormat.table,
    explain: flags.ExplainOption = False,
    no_log: flags.NoLogOption = False,
    dtype: flags.DtypeOption = "auto",
    device: flags.DeviceOption = "auto",
    speculate: flags.SpeculateOption = flags.Speculate.none,
    draft: flags.DraftOption = None,
    kv_dtype: flags.KvDtypeOption = "auto",
    kv_offload: flags.KvOffloadOption = False,
    prefill_chunk: flags.PrefillChunkOption = None,
    device_map: flags.DeviceMapOption = flags.DeviceMap.none,
    registry: flags.RegistryOption = None,
) -> None:
    """Time the two phases apart: prefill (the prompt, all at once) and decode (one token after the other).

    Every repetition takes fresh random ids: no cache can help beyond what --depth asks for.
    """
    asked = asked_tests(GridFlags(prompt_len, out_len, depth, batch, decode, quant), repeats=repeats, warmup=warmup)
    plain = flags.ModelOptions(
        dtype=dtype,
        device=device,
        weights_only=True,
        registry=registry,
        speculate=speculate.value,
        draft=draft,
        kv_dtype=kv_dtype,
        kv_offload=kv_offload,
        prefill_chunk=prefill_chunk,
        spread=device_map is flags.DeviceMap.auto,
        tokens=longest(asked.plans).context,
        batch=max(plan.batch for plan in asked.plans),
    )
    loadings = tuple(
        flags.check_model_options(replace(plain, quant=quantization.value, decode=path.value))
        for quantization, path in asked.loads
    )
    if ranks.rank() > 0:
        from llmcli.cli.following import follow

        for loading in loadings:
            follow(model, registry, loading)
        return
    from llmcli.cli.measuring import Measurement, measure  # its imports take longer than showing --help may

    measure(Measurement(model, registry, loadings, asked.plans, output, explain=explain, log=not no_log))
