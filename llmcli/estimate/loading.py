"""Which weights are loaded: the files as they are, or what is made of the parameters."""

from dataclasses import dataclass

from llmcli.errors import ModelError
from llmcli.estimate.dtypes import BYTES, canonical
from llmcli.estimate.quants import INT4, NONE, SCHEMES, STORED, check_quant
from llmcli.estimate.request import SizeRequest
from llmcli.estimate.subject import Subject
from llmcli.estimate.weights import Weights, quantized_weights, scheme_weights, unpacked_weights
from llmcli.load_rules import INT8_DTYPE
from llmcli.units import bytes_text, count_text

_SAME = 1.25
"""Files that differ by more than this from the parameters in the dtype asked for are in another dtype."""

_DEQUANTIZED = {("transformers", "mxfp4"): "; where its GPU kernels are missing, transformers makes 16 bits of all"}


@dataclass(frozen=True, slots=True)
class Loaded:
    """Weights as an engine loads them. dtype: torch's name of what the model runs in; notes: what was assumed."""

    weights: Weights
    dtype: str
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def load(subject: Subject, request: SizeRequest, engine: str) -> Loaded:
    """The weights of `subject` in `engine`.

    Raises UsageError for a quantization that the engine does not have, ModelError for a dtype without a size.
    """
    quant = check_quant(request.quant, engine)
    dtype, notes = _dtype(subject, request, quant, engine)
    notes += _not_loaded(subject, engine)
    counted = scheme_weights(subject.architecture, None, dtype)
    stored = _stored(subject, engine, counted.total) if quant == NONE else None
    if stored is not None:
        return Loaded(counted.scaled(stored), dtype, (*notes, f"weights as stored{_how_stored(subject)}"))
    weights, note = _made(subject, engine, quant, dtype)
    warnings = (*_quantized(subject, quant, engine), *_left(subject, quant, engine, weights), *_no_gpu(request))
    return Loaded(
        weights, dtype, (*notes, *_dequantized(subject, engine), note, *_copies(subject, quant, dtype)), warnings
    )


def _dtype(subject: Subject, request: SizeRequest, quant: str, engine: str) -> tuple[str, tuple[str, ...]]:
    if quant == "int8" and engine == "transformers":
        return INT8_DTYPE, ()
    if request.dtype:
        return request.dtype, ()
    named, method = subject.architecture.dtype, subject.architecture.quantization
    if named is None and method:
        return "bfloat16", (f"the config names no dtype: bfloat16 for what {method} leaves; --dtype sets another",)
    if named is None:
        return "float32", ("the config names no dtype: float32, as transformers takes it; --dtype sets another",)
    dtype = canonical(named)
    if dtype is None:
        raise ModelError(f"{subject.name}: the dtype {named!r} has no known size", "Say what to load it in: --dtype.")
    return dtype, ()


def _made(subject: Subject, engine: str, quant: str, dtype: str) -> tuple[Weights, str]:
    """Weights made of the parameters, and how."""
    model = subject.architecture
    if quant == NONE:
        method = model.quantization or ""
        scheme = STORED.get(method) if engine != "llama.cpp" or method in SCHEMES[engine] else None
        if scheme is None:
            return scheme_weights(model, None, dtype), f"weights in {dtype}, {BYTES[dtype]} bytes per parameter"
        note = f"weights in {method}: {scheme.note}, the rest in {dtype}"
        return scheme_weights(model, scheme, dtype), f"{note}{_DEQUANTIZED.get((engine, method), '')}"
    scheme = SCHEMES[engine][quant]
    if engine == "llama.cpp":
        note = f", {scheme.note}" if scheme.note else ""
        return scheme_weights(model, scheme, dtype), f"weights in {quant}: {scheme.bits:g} bits each{note}"
    ours = engine == "transformers"
    weights = quantized_weights(model, quant, dtype) if ours else scheme_weights(model, scheme, dtype)
    return weights, f"weights in {quant}: {scheme.note}, {scheme.rest} in {dtype}"


def _stored(subject: Subject, engine: str, counted: int) -> int | None:
    """Bytes of the files where the engine keeps weights as they lie there.

    llama.cpp maps a GGUF file; transformers dequantizes it, and casts an unquantized checkpoint to the dtype asked for.
    """
    stored = subject.stored_bytes
    if stored is None or subject.packed != (engine == "llama.cpp"):
        return None
    if subject.packed or subject.architecture.quantization or subject.architecture.vision_params is None:
        return stored
    return stored if stored < counted * _SAME and counted < stored * _SAME else None


def _how_stored(subject: Subject) -> str:
    method = subject.architecture.quantization
    if method:
        return f", quantized with {method}"
    return f", mostly {subject.stored_type}" if subject.stored_type else ""


def _dequantized(subject: Subject, engine: str) -> tuple[str, ...]:
    """What an engine that does not map it makes of a GGUF file."""
    if not subject.packed or engine == "llama.cpp":
        return ()
    stored = f"; on disk it is mostly {subject.stored_type}" if subject.stored_type else ""
    who = "llmcli loads a GGUF file" if engine == "transformers" else "sized as the model of the GGUF file"
    return (f"{who} dequantized{stored}",)


def _quantized(subject: Subject, quant: str, engine: str) -> tuple[str, ...]:
    """What is not known of a checkpoint that is quantized already."""
    method = subject.architecture.quantization
    if not method or engine == "llama.cpp":
        return ()
    said = f"the checkpoint is quantized already ({method}):"
    if quant != NONE:
        return (f"{said} --quant {quant} is sized for its unquantized weights",)
    return () if method in STORED else (f"{said} its files may be smaller",)


def _not_loaded(subject: Subject, engine: str) -> tuple[str, ...]:
    """A note on checkpoints that transformers loads and llmcli's own commands refuse."""
    method = subject.architecture.quantization
    if engine != "transformers" or method in {None, "bitsandbytes"}:
        return ()
    return (f"sized as transformers loads it: chat and bench refuse checkpoints quantized with {method}",)


def _copies(subject: Subject, quant: str, dtype: str) -> tuple[str, ...]:
    """What int4 takes beyond its weights, where there is room: it is not counted."""
    more = unpacked_weights(subject.architecture, dtype) if quant == INT4 else 0
    if not more:
        return ()
    return (f"prompts run on unpacked weights beside them, as far as memory is free: {bytes_text(more)}, not counted",)


def _no_gpu(request: SizeRequest) -> tuple[str, ...]:
    if not request.on_cpu or request.vram is None:
        return ()
    return (f"--quant {INT4} runs on a CPU, not on a GPU: --vram is taken as main memory",)


def _left(subject: Subject, quant: str, engine: str, weights: Weights) -> tuple[str, ...]:
    """What the quantization leaves alone in a model, where that is most of it."""
    count = subject.architecture.count
    odd = count.linear - count.even if quant == INT4 else 0
    if engine != "transformers" or quant == NONE or 2 * (count.experts + odd) < count.total:
        return ()
    bits = SCHEMES[engine][quant].bits
    number = f"{count_text(count.experts + odd)} of {count_text(count.total)}"
    left = f"--quant {quant} leaves {number} parameters as they are"
    who = quant if quant == INT4 else "bitsandbytes"
    why = f"experts are 3-D parameters, which {who} does not quantize"
    if odd > count.experts:
        why = "its kernel does not take the sizes, or the kind, of their layers"
    all_of_them = bytes_text(round(count.total * bits / 8))
    return (f"{left}: {why}; the weights take {bytes_text(weights.total)}, not {all_of_them} at {bits:g} bits each",)
