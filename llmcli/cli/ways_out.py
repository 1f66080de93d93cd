"""What to do when a model does not fit: only what really would, with its size."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from llmcli.cli.fitting import Fit
from llmcli.cli.hardware import gpus, memory, torch_build
from llmcli.errors import LlmcliError
from llmcli.estimate.dtypes import canonical
from llmcli.estimate.fit import Setting, Stored, need_of
from llmcli.estimate.fitting import largest
from llmcli.inference import Quant
from llmcli.load_rules import INT8_DTYPE
from llmcli.units import bytes_text

if TYPE_CHECKING:
    from llmcli.models.registry import Registry

_SHORTEST = 256
_FOUR_BITS: Mapping[str, tuple[Quant, ...]] = {"cpu": ("int4", "nf4"), "cuda": ("nf4",)}
"""Device: what halves weights and more there, the fastest first."""


def ways_out(name: str, fit: Fit, registry: Path | None, count: int = 3) -> list[str]:
    """Up to `count` ways that fit, the ones that keep most of the model first. registry: the user's own models.toml."""
    return list(islice(_ways(name, fit, registry), count))


def _ways(name: str, fit: Fit, registry: Path | None) -> Iterator[str]:
    yield from _without_draft(fit)
    yield from _fewer_tokens(fit)
    yield from _smaller_numbers(fit)
    yield from _elsewhere(fit)
    taken = 0 if fit.draft is None else fit.draft.weights + fit.draft.held(fit.context)
    yield from _smaller_model(name, replace(fit, place=replace(fit.place, free=fit.place.free - taken)), registry)
    missing = fit.bytes - fit.place.free
    if fit.bytes <= fit.place.total:
        where = f"on {fit.place.device}" if fit.place.kind == "cuda" else "of memory"
        yield f"end other programs: {bytes_text(missing)} more {where} is needed"


def _without_draft(fit: Fit) -> Iterator[str]:
    if fit.draft is not None and (size := need_of(fit.stored, fit.setting).total(fit.context)) <= fit.place.free:
        yield f"leave --draft out: {bytes_text(size)}"


def _fewer_tokens(fit: Fit) -> Iterator[str]:
    if fit.exact:
        yield from _smaller_tests(fit)
        return
    longest = fit.need.longest(fit.place.free)
    if longest and _SHORTEST <= longest < fit.context and fit.need.total(longest) <= fit.place.free:
        yield f"--ctx {longest}: {bytes_text(fit.need.total(longest))}"


def _smaller_tests(fit: Fit) -> Iterator[str]:
    """The most sequences of the same length, and the longest sequences of the same number, that a bench may have."""
    fewer = replace(fit.setting, batch=1)
    most = largest(lambda batch: _takes(fit, replace(fewer, batch=batch)) <= fit.place.free, fit.need.batch)
    if 1 <= most < fit.need.batch:
        yield f"--batch {most}: {bytes_text(_takes(fit, replace(fewer, batch=most)))}"
    longest = fit.need.longest(fit.place.free)
    if longest and _SHORTEST <= longest < fit.context and fit.need.total(longest) <= fit.place.free:
        size = bytes_text(fit.need.total(longest))
        yield f"--depth, --prompt-len and --out-len of {longest} together: {size}"


def _takes(fit: Fit, setting: Setting) -> int:
    return fit.need_in(setting).total(fit.context)


def _smaller_numbers(fit: Fit) -> Iterator[str]:
    setting = fit.setting
    if fit.stored.quant is not None or setting.quant in {"nf4", "fp4"}:
        return
    if setting.dtype == "float32" and (size := _takes(fit, replace(setting, dtype="bfloat16"))) <= fit.place.free:
        yield f"--dtype bfloat16: {bytes_text(size)}"
    dtype = "bfloat16" if setting.quant == "int8" else setting.dtype
    for quant in _FOUR_BITS.get(setting.device, _FOUR_BITS["cuda"]):
        size = _takes(fit, replace(setting, quant=quant, dtype=dtype))
        if quant != setting.quant and size <= fit.place.free:
            yield f"--quant {quant}: {bytes_text(size)}"
            return


def _elsewhere(fit: Fit) -> Iterator[str]:
    for place in (*((gpus() or ()) if torch_build() == "cuda" else ()), memory()):
        quant = fit.quant_on(place.kind)
        if quant is None:
            continue
        needed = _takes(fit, replace(fit.setting, device=place.kind, quant=quant))
        if place.device != fit.place.device and fit.place.kind != "mps" and needed <= place.free:
            yield f"--device {place.device}: {bytes_text(place.free)} free"


def _smaller_model(name: str, fit: Fit, registry: Path | None) -> Iterator[str]:
    """The largest model of the registry that fits, as far as its size is known without fetching it."""
    from llmcli.models.registry import load_registry

    known = load_registry(registry)
    others = [alias for alias in known.names() if alias != name]
    fitting = [(size, alias) for alias in others for size in _size(alias, fit, known)]
    if fitting:
        size, alias = max(fitting)
        yield f"a smaller model: {alias}, {bytes_text(size)}"


def _size(alias: str, fit: Fit, known: "Registry") -> Iterator[int]:
    from llmcli.estimate.sources import known_alias

    try:
        subject = known_alias(alias, known)
    except LlmcliError:
        return
    if subject is None or subject.architecture.quantization not in {None, "bitsandbytes"}:
        return
    dtype = canonical(subject.architecture.dtype or "float32") or INT8_DTYPE
    stored = Stored(subject.architecture, subject.stored_bytes or 0, None)
    need = need_of(stored, Setting("none", dtype, fit.place.kind, fit.need.batch))
    if fit.exact and need.limit is not None and need.limit < fit.context:
        return
    if (size := need.total(fit.context if fit.exact else need.useful_context(None))) <= fit.place.free:
        yield size
