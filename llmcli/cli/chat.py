"""`llmcli chat`: the flags of one question."""

from llmcli.chat.prompt import PromptSources, stdin_is_piped
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
    json: flags.JsonOption = False,
    stats: flags.StatsOption = flags.Stats.line,
    explain: flags.ExplainOption = False,
    quant: flags.QuantOption = flags.Quant.auto,
    dtype: flags.DtypeOption = "auto",
    device: flags.DeviceOption = "auto",
    registry: flags.RegistryOption = None,
) -> None:
    """Ask a model: the answer on stdout, and on stderr a line that says where the time went.

    The message is what -f names, then what is piped into stdin, then the text of -p.
    """
    from llmcli.cli.asking import ask  # its imports take longer than showing --help may

    sampling = SamplingOptions(temperature, top_p, top_k, min_p, repetition_penalty, seed, max_new_tokens)
    loading = flags.model_options(quant, dtype, device, ctx)
    sources = PromptSources(prompt, tuple(file or ()), stdin_is_piped(), system)
    display = Display(not (no_stream or json), json, stats, explain)
    ask(Question(model, registry, loading, sources, flags.check_sampling(sampling), flags.check_stops(stop), display))
