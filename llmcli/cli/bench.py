"""`llmcli bench`: time prefill and decode."""

from typing import Annotated

import typer

from llmcli import ranks
from llmcli.bench.plan import Plan
from llmcli.cli import options as flags

PromptLenOption = Annotated[int, typer.Option("--prompt-len", metavar="N", help="Prompt: exactly N random ids.")]
OutLenOption = Annotated[int, typer.Option("--out-len", metavar="N", help="Answer: exactly N ids, whatever they are.")]
RepeatsOption = Annotated[int, typer.Option("--repeats", metavar="N", help="Measured repetitions.")]
WarmupOption = Annotated[int, typer.Option("--warmup", metavar="N", help="Repetitions before them, not measured.")]


def bench(
    model: flags.ModelArgument = None,
    *,
    prompt_len: PromptLenOption = 512,
    out_len: OutLenOption = 128,
    repeats: RepeatsOption = 5,
    warmup: WarmupOption = 1,
    output: flags.FormatOption = flags.TableFormat.table,
    explain: flags.ExplainOption = False,
    no_log: flags.NoLogOption = False,
    quant: flags.QuantOption = flags.Quant.auto,
    dtype: flags.DtypeOption = "auto",
    device: flags.DeviceOption = "auto",
    decode: flags.DecodeOption = flags.Decode.auto,
    speculate: flags.SpeculateOption = flags.Speculate.none,
    draft: flags.DraftOption = None,
    kv_dtype: flags.KvDtypeOption = "auto",
    kv_offload: flags.KvOffloadOption = False,
    prefill_chunk: flags.PrefillChunkOption = None,
    device_map: flags.DeviceMapOption = flags.DeviceMap.none,
    registry: flags.RegistryOption = None,
) -> None:
    """Time the two phases apart: prefill (the prompt, all at once) and decode (one token after the other).

    Every repetition takes fresh random ids, so no cache can help.
    """
    plan = Plan(prompt_len, out_len, repeats, warmup)
    loading = flags.check_model_options(
        flags.ModelOptions(
            quant=quant.value,
            dtype=dtype,
            device=device,
            weights_only=True,
            registry=registry,
            decode=decode.value,
            speculate=speculate.value,
            draft=draft,
            kv_dtype=kv_dtype,
            kv_offload=kv_offload,
            prefill_chunk=prefill_chunk,
            spread=device_map is flags.DeviceMap.auto,
        )
    )
    if ranks.rank() > 0:
        from llmcli.cli.following import follow

        follow(model, registry, loading)
        return
    from llmcli.cli.measuring import Measurement, measure  # its imports take longer than showing --help may

    measure(Measurement(model, registry, loading, plan, output, explain=explain, log=not no_log))
