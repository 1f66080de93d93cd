"""`llmcli bench`: time prefill and decode."""

from dataclasses import replace
from typing import Annotated, Any

import typer

from llmcli import ranks
from llmcli.bench.plan import longest
from llmcli.cli import options as flags
from llmcli.cli.bench_flags import GridFlags, asked_tests

_LISTS = "What is measured: every combination of lists like 128,4k"


def _listed(name: str, metavar: str, help_text: str) -> Any:
    return typer.Option(f"--{name}", metavar=f"{metavar},…", help=help_text, rich_help_panel=_LISTS)


PromptLenOption = Annotated[list[str] | None, _listed("prompt-len", "N", "Prompt: exactly N random ids. Default: 512.")]
OutLenOption = Annotated[
    list[str] | None, _listed("out-len", "N", "Answer: exactly N ids, whatever they are. Default: 128.")
]
DepthOption = Annotated[
    list[str] | None, _listed("depth", "N", "Tokens that the cache holds before the prompt. Default: 0.")
]
BatchOption = Annotated[
    list[str] | None, _listed("batch", "N", "Sequences at once; rates are their totals. Default: 1.")
]
DecodeOption = Annotated[
    list[str] | None,
    _listed(
        "decode",
        "NAME",
        f"How tokens are made: {', '.join(flags.Decode)}. Default: auto, what is known to be fastest here.",
    ),
]
QuantOption = Annotated[
    list[str] | None,
    _listed(
        "quant",
        "NAME",
        f"What weights are quantized to on load: {', '.join(flags.Quant)}. "
        "Default: auto, those of a 4-bit GGUF to nf4 on CUDA, to int4 on a CPU.",
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
