"""What is known of a model in memory."""

import importlib.metadata
import platform
from collections.abc import Callable
from typing import Any

import torch

from llmcli import __version__
from llmcli.engine import device as devices
from llmcli.engine.architectures import chunk_tokens
from llmcli.engine.decode.graph_choice import graphs_for
from llmcli.engine.loaded import Loaded, eos_ids, streamed_bytes, weight_bytes
from llmcli.engine.quantize import few_quantized_notice, quant_of
from llmcli.engine.template import chat_format
from llmcli.engine.tokenizer_notices import tokenizer_notices
from llmcli.errors import ModelError
from llmcli.inference import LoadRequest, ModelInfo, Quant, SamplingOptions
from llmcli.prefill_rules import CONTINUABLE
from llmcli.sampling_rules import broken_rule

_NO_LIMIT = 131_072
"""Context of a model that names no limit of its own (recurrent models), in tokens."""


def describe(
    request: LoadRequest, model: Any, tokenizer: Any, *, attention: str, seconds: Callable[[], float]
) -> Loaded:
    """The model with its facts. Raises ModelError for a config whose limits make no sense."""
    config = model.config.get_text_config(decoder=True)
    limit, bound_by = _context(request, config)
    device = model.device
    params = model.num_parameters()
    quant = quant_of(model)
    defaults, refused = _generation_defaults(model)
    graphs, not_captured = graphs_for(request, model)
    info = ModelInfo(
        name=request.name,
        source=request.source,
        revision=request.revision,
        architecture=type(model).__name__,
        params=params,
        quant=quant,
        dtype=str(model.dtype).removeprefix("torch."),
        weight_bytes=weight_bytes(model),
        streamed_bytes=streamed_bytes(model),
        device=devices.name(device),
        attention=attention,
        decode_path="eager" if graphs is None else "graph",
        context_limit=limit,
        context_bound_by=bound_by,
        vocab_size=config.vocab_size,
        threads=torch.get_num_threads(),
        load_seconds=seconds(),
        generation_defaults=defaults,
        versions=_versions(quant),
        notices=(
            *_notices(device, model, tokenizer),
            *filter(None, [few_quantized_notice(model, params)]),
            *not_captured,
            *refused,
        ),
        cache_reuse=model.config.model_type in CONTINUABLE,
        system_role=tokenizer is None or chat_format(tokenizer).system_role,
    )
    chunk = chunk_tokens(model.config.model_type, device.type, params) or limit
    return Loaded(model, tokenizer, info, device, eos_ids(model, tokenizer), chunk, graphs=graphs)


def _context(request: LoadRequest, config: Any) -> tuple[int, str]:
    own = getattr(config, "max_position_embeddings", None)
    if own is not None and (not isinstance(own, int) or own < 1):
        raise ModelError(f"{request.path}: config.json gives {own!r} as the model's context length", "Fetch it again.")
    return min(((own or _NO_LIMIT, "model"), *request.context))


def _generation_defaults(model: Any) -> tuple[SamplingOptions, tuple[str, ...]]:
    """Sampling values of generation_config.json, and a notice for each that is none; no sampling there is greedy."""
    config = getattr(model, "generation_config", None)
    if config is None:
        return SamplingOptions(), ()
    names = ("top_p", "top_k", "min_p", "repetition_penalty", "max_new_tokens")
    given = {name: value for name in names if (value := getattr(config, name, None)) is not None}
    if getattr(config, "do_sample", None):
        temperature = getattr(config, "temperature", None)
        given["temperature"] = 1.0 if temperature is None else temperature
    if given.get("top_k") == -1:  # what other engines call off
        given["top_k"] = 0
    wrong = {name: allowed for name, value in given.items() if (allowed := _wrong(name, value))}
    notices = tuple(
        f"generation_config.json: {name} = {given[name]!r} is ignored; allowed: {allowed}"
        for name, allowed in wrong.items()
    )
    return SamplingOptions(**{name: value for name, value in given.items() if name not in wrong}), notices


def _wrong(name: str, value: Any) -> str | None:
    whole = name in {"top_k", "max_new_tokens"}
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        return "a whole number" if whole else "a number"
    return broken_rule(name, value)


def _versions(quant: Quant) -> dict[str, str]:
    names = ["torch", "transformers", *(["bitsandbytes"] if quant != "none" else [])]
    found = {name: importlib.metadata.version(name) for name in names}
    return {"llmcli": __version__, "python": platform.python_version(), **found}


def _notices(device: torch.device, model: Any, tokenizer: Any) -> tuple[str, ...]:
    idle = devices.idle_gpu_notice(device)
    return (*([idle] if idle else []), *(() if tokenizer is None else tokenizer_notices(model, tokenizer)))
