"""`llmcli chat`: the flags of a conversation or of one question."""

from llmcli import ranks
from llmcli.chat.prompt import PromptSources, stdin_is_piped, stdin_is_terminal
from llmcli.cli import options as flags
from llmcli.cli.question import Display, Question
from llmcli.inference import SamplingOptions


def chat(
    model: flags.ModelArgument = None,
    *,
    prompt: flags.PromptOption = None,
    file: flags.FileOption = None,
    system: flags.SystemOption = None,
    temperature: flags.TemperatureOption = None,
    top_p: flags.TopPOption = None,
    top_k: flags.TopKOption = None,
    min_p: flags.MinPOption = None,
    repetition_penalty: flags.RepetitionPenaltyOption = None,
    seed: flags.SeedOption = None,
    stop: flags.StopOption = None,
    max_new_tokens: flags.MaxNewTokensOption = None,
    ctx: flags.CtxOption = None,
    no_stream: flags.NoStreamOption = False,
    plain: flags.PlainOption = False,
    json: flags.JsonOption = False,
    stats: flags.StatsOption = flags.Stats.line,
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
    """Talk to a model, or ask it one question: the answer on stdout, on stderr a line that says where the time went.

    A question is what -f names, then what is piped into stdin, then the text of -p. Without one, on a terminal, a
    conversation begins: /help lists its commands.
    """
    sampling = SamplingOptions(temperature, top_p, top_k, min_p, repetition_penalty, seed, max_new_tokens)
    loading = flags.check_model_options(
        flags.ModelOptions(
            quant=quant.value,
            dtype=dtype,
            device=device,
            context=ctx,
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
    sources = PromptSources(prompt, tuple(file or ()), stdin_is_piped(), system)
    display = Display(not (no_stream or json), plain, json, stats, explain)
    checked = flags.check_sampling(sampling), flags.check_stops(stop)
    _begin(Question(model, registry, loading, sources, *checked, display, log=not no_log))


def _begin(question: Question) -> None:
    """Answer the question, or talk when there is none; what either needs takes longer to import than --help may."""
    if ranks.rank() > 0:
        from llmcli.cli.following import follow

        follow(question.model, question.registry, question.loading)
    elif question.sources.empty and stdin_is_terminal():
        from llmcli.cli.conversing import converse

        converse(question)
    else:
        from llmcli.cli.asking import ask

        ask(question)
