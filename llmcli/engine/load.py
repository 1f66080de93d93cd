"""From a load request to a model that is ready to answer."""

import importlib.metadata
import math
import platform
from collections.abc import Callable
from typing import Any

import torch

from llmcli import __version__
from llmcli.engine import device as devices
from llmcli.engine.architectures import CHUNK_TOKENS, CHUNKED_PREFILL
from llmcli.engine.attention import use_grouped_attention
from llmcli.engine.cache import new_cache
from llmcli.engine.checkpoint import load_model, load_tokenizer, read_config, resolve_dtype
from llmcli.engine.failures import translate
from llmcli.engine.generate import forward
from llmcli.engine.loaded import Loaded, eos_ids, streamed_bytes, weight_bytes
from llmcli.engine.prompt import has_template
from llmcli.errors import LlmcliError, ModelError, OutOfMemory
from llmcli.inference import Clock, LoadRequest, ModelInfo, SamplingOptions
from llmcli.units import bytes_text

_NO_LIMIT = 131_072
"""Context of a model that names no limit of its own (recurrent models), in tokens."""


def load(request: LoadRequest, clock: Clock) -> Loaded:
    """Load weights and tokenizer, check that they are whole, and run one token to set the kernels up.

    Raises UsageError for a device or dtype that is not there, ModelError for a model that cannot run, OutOfMemory.
    """
    started = clock()
    device = devices.resolve_device(request.device)
    config = read_config(request.path)
    dtype = resolve_dtype(request.dtype, config)
    _refuse_too_large(request, dtype, device)
    try:
        model = load_model(request.path, config, dtype, request.quant, device)
        tokenizer = None if request.weights_only else load_tokenizer(request.path)
        attention = use_grouped_attention(model)
        _warm_up(model, device)
    except LlmcliError:
        raise
    except Exception as error:
        ours = translate(error, f"loading {request.name}", _CURE)
        if isinstance(ours, OutOfMemory):
            raise ours from error
        hint = ours.hint if request.quant == "none" else "Quantization may not support its shapes: --quant none."
        raise ModelError(ours.message, hint) from error
    return assemble(request, model, tokenizer, attention=attention, seconds=lambda: clock() - started)


_CURE = "Use --quant nf4, a smaller model, or free memory first."


def assemble(
    request: LoadRequest, model: Any, tokenizer: Any, *, attention: str, seconds: Callable[[], float]
) -> Loaded:
    """What is known of a model in memory."""
    config = model.config.get_text_config(decoder=True)
    limit, bound_by = _context(request, config)
    device = model.device
    model_type = model.config.model_type
    chunked = model_type in CHUNKED_PREFILL
    info = ModelInfo(
        name=request.name,
        source=request.source,
        revision=request.revision,
        architecture=type(model).__name__,
        params=model.num_parameters(),
        quant=request.quant,
        dtype=str(model.dtype).removeprefix("torch."),
        weight_bytes=weight_bytes(model),
        streamed_bytes=streamed_bytes(model),
        device=devices.name(device),
        attention=attention,
        decode_path="eager",
        context_limit=limit,
        context_bound_by=bound_by,
        vocab_size=config.vocab_size,
        threads=torch.get_num_threads(),
        load_seconds=seconds(),
        generation_defaults=_generation_defaults(model),
        versions=_versions(request),
        notices=_notices(device, tokenizer, weights_only=request.weights_only),
    )
    chunk = CHUNK_TOKENS.get(device.type, CHUNK_TOKENS["cpu"]) if chunked else limit
    return Loaded(model, tokenizer, info, device, eos_ids(model, tokenizer), chunk)


def _context(request: LoadRequest, config: Any) -> tuple[int, str]:
    limits = [(getattr(config, "max_position_embeddings", None) or _NO_LIMIT, "model")]
    if request.context is not None:
        limits.append((request.context, "request"))
    return min(limits)


def _generation_defaults(model: Any) -> SamplingOptions:
    """Sampling values of generation_config.json; a config that does not sample is greedy."""
    config = getattr(model, "generation_config", None)
    if config is None:
        return SamplingOptions()
    values = {name: getattr(config, name, None) for name in ("top_p", "top_k", "min_p", "repetition_penalty")}
    temperature = None
    if getattr(config, "do_sample", None):
        temperature = config.temperature if config.temperature is not None else 1.0
    return SamplingOptions(temperature=temperature, max_new_tokens=getattr(config, "max_new_tokens", None), **values)


def _versions(request: LoadRequest) -> dict[str, str]:
    names = ["torch", "transformers", *(["bitsandbytes"] if request.quant != "none" else [])]
    found = {name: importlib.metadata.version(name) for name in names}
    return {"llmcli": __version__, "python": platform.python_version(), **found}


def _notices(device: torch.device, tokenizer: Any, *, weights_only: bool) -> tuple[str, ...]:
    plain = None
    if not weights_only and not has_template(tokenizer):
        plain = "the model has no chat template: the prompt is completed as plain text"
    return tuple(notice for notice in (devices.idle_gpu_notice(device), plain) if notice)


def _refuse_too_large(request: LoadRequest, dtype: torch.dtype, device: torch.device) -> None:
    """Refuse before loading what cannot fit: weights in the chosen dtype against free memory."""
    size = sum(file.stat().st_size for file in request.path.glob("*.safetensors"))
    stored = resolve_dtype("auto", read_config(request.path))
    needed = math.ceil(size * dtype.itemsize / stored.itemsize * (0.35 if request.quant == "nf4" else 1))
    free = devices.free_bytes(device)
    if needed > free:
        raise OutOfMemory(
            f"{request.name} needs {bytes_text(needed)} for its weights, {device} has {bytes_text(free)} free",
            _CURE,
        )


@torch.inference_mode()
def _warm_up(model: Any, device: torch.device) -> None:
    """Run one token: libraries set up kernels and buffers on first use, and that is no part of a request."""
    forward(model, torch.zeros((1, 1), dtype=torch.long, device=device), new_cache(model.config))
