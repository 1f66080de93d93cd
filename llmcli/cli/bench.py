"""`llmcli bench`: time prefill and decode."""

from typing import Annotated

import typer

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
    registry: flags.RegistryOption = None,
) -> None:
    """Time the two phases apart: prefill (the prompt, all at once) and decode (one token after the other).

    Every repetition takes fresh random ids, so no cache can help.
    """
    from llmcli.cli.measuring import Measurement, measure  # its imports take longer than showing --help may

    plan = Plan(prompt_len, out_len, repeats, warmup)
    loading = flags.model_options(quant, dtype, device, weights_only=True, registry=registry)
    measure(Measurement(model, registry, loading, plan, output, explain=explain, log=not no_log))
