"""Whether a model fits, told before it is fetched or loaded, with ways out when it does not."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from llmcli import ranks
from llmcli.cli.hardware import Place, gpus, memory, place_of, together
from llmcli.cli.options import ModelOptions
from llmcli.errors import ModelError, OutOfMemory
from llmcli.estimate import experts
from llmcli.estimate.architecture import Architecture
from llmcli.estimate.config import DTYPE, Config
from llmcli.estimate.dtypes import BYTES, canonical
from llmcli.estimate.fit import Need, Setting, Stored, need_of
from llmcli.estimate.from_config import from_config
from llmcli.estimate.gguf.from_gguf import DTYPE as GGUF_DTYPE
from llmcli.estimate.gguf.from_gguf import from_gguf
from llmcli.estimate.layers import Layers
from llmcli.estimate.sources import catalogued_config
from llmcli.inference import Quant, QuantChoice
from llmcli.kv_rules import QUANTIZED, parse_kv_dtype, refuse_float
from llmcli.load_rules import FOUR_BIT, INT8_DTYPE, parse_dtype, resolve_quant, stored_quant
from llmcli.models.gguf import GgufHeader
from llmcli.models.locate import Located
from llmcli.models.packed import packed_in
from llmcli.units import bytes_text


@dataclass(frozen=True, slots=True)
class Weights:
    """What is known of a model before it is loaded. config: its config.json.

    stored_bytes, stored_dtype: its weights as they lie, or will lie, on disk (dtype: torch's name, None: not known).
    packed_bits: bits per weight of the GGUF file that they were converted from, None for others. architecture: the
    facts, where they are told by something else than the config.
    """

    config: dict[str, Any]
    stored_bytes: int
    stored_dtype: str | None
    packed_bits: float | None = None
    architecture: Architecture | None = None


@dataclass(frozen=True, slots=True)
class Fit:
    """A model, how it is to be loaded, where, and what that takes. context: the tokens that have to fit.

    exact: so many tokens will be held, however many would be useful. offloaded: what the cache holds in main memory
    beside; empty without `--kv-offload`. draft: what the draft model takes, which is part of `need`. choice: what was
    asked for with `--quant`; packed_bits: see `Weights`.
    """

    stored: Stored
    setting: Setting
    place: Place
    need: Need
    context: int
    exact: bool = False
    offloaded: Layers = ()
    draft: Need | None = None
    choice: QuantChoice = "auto"
    packed_bits: float | None = None

    def quant_on(self, kind: str) -> Quant | None:
        """What the weights would be quantized to on another kind of device; None where what is asked for cannot be."""
        if self.stored.quant is not None:
            return self.stored.quant
        quant = resolve_quant(self.choice, self.packed_bits, kind)
        return None if quant == "int4" and kind != "cpu" else quant

    def need_in(self, setting: Setting) -> Need:
        """What it takes in another setting, draft model included."""
        return _together(need_of(self.stored, setting), self.draft)

    @property
    def bytes(self) -> int:
        """What has to be free."""
        return self.need.total(self.context)

    @property
    def longest(self) -> int | None:
        """The longest context that fits into what is free, where that is less than the model's own limit.

        What has been found to fit does so, however that is rounded.
        """
        limits = [self.need.longest(self.place.free)]
        if self.offloaded:
            alone = replace(self.need, weights=0, workspace=0, runtime=0, layers=self.offloaded, moments=None)
            limits.append(alone.longest(memory().free))
        longest = min((limit for limit in limits if limit), default=None)
        return max(longest, self.context) if longest else None


def gguf_weights(header: GgufHeader) -> Weights:
    """What a GGUF file becomes when it is converted."""
    config = {experts.NUMBER[0]: header.field("expert_count")}
    sized = _known(lambda: from_gguf(header))
    return Weights(config, BYTES[GGUF_DTYPE] * header.params, GGUF_DTYPE, packed_in(header).bits, sized)


def catalogued_weights(located: Located) -> Weights | None:
    """What is known of a GGUF file that is still to be fetched; None where llmcli's catalogue does not have it.

    How it is packed is not known: what it may be quantized to is settled by its header, once it is there. Until then it
    is taken for one that takes little.
    """
    config = catalogued_config(located)
    if config is None:
        return None
    sized = _known(lambda: from_config(Config(located.name, config)))
    return Weights(config, BYTES[GGUF_DTYPE] * sized.params if sized else 0, GGUF_DTYPE, FOUR_BIT, sized)


def require_memory(name: str, weights: Weights, options: ModelOptions, draft: Need | None = None) -> Fit | None:
    """The plan for loading the model with `options`; None where only torch can tell which device it will be.

    draft: what its draft model takes by itself. Raises OutOfMemory, with three ways out and their sizes, when it cannot
    be loaded, UsageError when it cannot have the KV cache that is asked for.
    """
    fit = fit_of(weights, options, draft)
    if fit is None or fit.bytes <= fit.place.free:
        return fit
    from llmcli.cli.ways_out import ways_out

    ways = ways_out(name, fit, options.registry)
    raise OutOfMemory(
        f"{name} needs {bytes_text(fit.bytes)} ({_parts(fit)}); "
        f"{fit.place.device} has {bytes_text(fit.place.free)} free",
        "\n  ".join(f"{number}. {way}" for number, way in enumerate(ways, start=1))
        or "Nothing that is known here would fit: it takes a machine with more memory.",
    )


def fit_of(weights: Weights, options: ModelOptions, draft: Need | None = None) -> Fit | None:
    """What loading takes and where; None where only torch can tell which device it will be."""
    place = place_of(options.device)
    if place is None:
        return None
    stored = stored_of(weights)
    quant = stored.quant or resolve_quant(options.quant, weights.packed_bits, place.kind)
    asked = INT8_DTYPE if quant == "int8" else parse_dtype(options.dtype)
    dtype = _own_dtype(weights) if asked == "auto" else asked
    refuse_float(options.kv_dtype, dtype)
    kv_dtype = name if (name := parse_kv_dtype(options.kv_dtype)) in QUANTIZED else None
    whole = Setting(quant, dtype, place.kind, options.batch, kv_dtype, options.prefill_chunk)
    setting = replace(whole, kv_offload=options.kv_offload and place.kind == "cuda")
    need = _together(need_of(stored, setting), draft)
    elsewhere = need_of(stored, whole).layers if setting.kv_offload else ()
    exact = options.tokens is not None
    context = need.useful_context(options.context)
    if options.tokens is not None:
        context = min(options.tokens, need.limit or options.tokens)
    if place.kind == "cuda" and ranks.world() > 1:
        place = together((gpus() or (place,))[: ranks.local_world()], need.runtime)
    elif place.kind == "cuda" and options.spread:
        place = _spread(need.total(context), need.runtime)
    return Fit(stored, setting, place, need, context, exact, elsewhere, draft, options.quant, weights.packed_bits)


def _spread(needed: int, runtime: int) -> Place:
    """All GPUs as one place, with the main memory where they are too small: accelerate fills it last."""
    places = gpus() or ()
    alone = together(places, runtime)
    return alone if needed <= alone.free else together((*places, memory()), runtime)


def _together(need: Need, draft: Need | None) -> Need:
    """What a model takes with its draft model beside it, which holds the same tokens. Their forwards alternate."""
    if draft is None:
        return need
    return replace(
        need,
        weights=need.weights + draft.weights,
        workspace=max(need.workspace, draft.workspace),
        layers=(*need.layers, *draft.layers) if need.layers else (),
    )


def stored_of(weights: Weights) -> Stored:
    """The model's facts; without an architecture where its family cannot be sized."""
    config = weights.config
    architecture = weights.architecture or _known(lambda: from_config(Config("config.json", config)))
    mixture = any(config.get(key) for key in experts.NUMBER)
    dtype = canonical(weights.stored_dtype) if weights.stored_dtype else None
    return Stored(architecture, weights.stored_bytes, dtype, stored_quant(config), mixture)


def _known(read: Callable[[], Architecture]) -> Architecture | None:
    """What `read` tells; None where the model's family cannot be sized."""
    try:
        return read()
    except ModelError:
        return None


def _own_dtype(weights: Weights) -> str:
    """The dtype that `auto` means, as the engine takes it: the config's, else the weights' own, else float32."""
    text = weights.config.get("text_config")
    named = [config.get(key) for config in (weights.config, text) if isinstance(config, dict) for key in DTYPE]
    for name in (*named, weights.stored_dtype):
        if isinstance(name, str) and (dtype := canonical(name)):
            return dtype
    return "float32"


def _parts(fit: Fit) -> str:
    need = fit.need
    beside = f" with {bytes_text(fit.draft.weights)} of the draft model" if fit.draft else ""
    parts = [f"weights {bytes_text(need.weights)}{beside}"]
    if need.workspace > need.held(fit.context):
        parts.append(f"quantizing {bytes_text(need.workspace)}")
    elif need.layers:
        rows = f"{need.batch} × " if need.batch > 1 else ""
        parts.append(f"{rows}{fit.context} tokens {bytes_text(need.cache(fit.context))}")
        if need.moments:
            parts.append(f"activations {bytes_text(need.forward(fit.context))}")
    return ", ".join((*parts, f"runtime {bytes_text(need.runtime)}"))
