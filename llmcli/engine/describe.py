"""What is known of a model in memory."""

import importlib.metadata
import platform
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from llmcli import __version__, ranks
from llmcli.engine import device as device_rules
from llmcli.engine.architectures import chunk_tokens
from llmcli.engine.checkpoint import dtype_name
from llmcli.engine.drafting import asked_for, may_speculate, no_speculation_notice
from llmcli.engine.int4 import parameter_count
from llmcli.engine.kv import KvCache, kv_notices, kv_of
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


def describe(request: LoadRequest, model: Any, tokenizer: Any, *, attention: str) -> Loaded:
    """The model with its facts, but for the time that loading took.

    Raises ModelError for a config whose limits make no sense.
    """
    config = model.config.get_text_config(decoder=True)
    limit, bound_by = _context(request, config)
    devices = device_rules.devices_of(model)
    device = devices[0]
    speculates = may_speculate(model.config)
    params = parameter_count(model)
    quant = quant_of(model)
    dtype = dtype_name(model.dtype)
    defaults, refused = _generation_defaults(model)
    kv = kv_of(request, device.type, limit)
    info = ModelInfo(
        name=request.name,
        source=request.source,
        revision=request.revision,
        architecture=type(model).__name__,
        params=params,
        quant=quant,
        dtype=dtype,
        weight_bytes=weight_bytes(model),
        streamed_bytes=streamed_bytes(model),
        device=device_rules.name(*devices) + _shared(ranks.world()),
        attention=attention,
        decode_path="eager",
        context_limit=limit,
        context_bound_by=bound_by,
        vocab_size=config.vocab_size,
        threads=torch.get_num_threads(),
        load_seconds=0.0,
        generation_defaults=defaults,
        versions=_versions(quant, kv),
        notices=(
            *_notices(device, model, tokenizer),
            *_layout_notices(request, devices),
            *filter(None, [few_quantized_notice(model, params), no_speculation_notice(request, model.config)]),
            *kv_notices(request, kv, device.type, model.config.model_type),
            *refused,
        ),
        cache_reuse=model.config.model_type in CONTINUABLE,
        system_role=tokenizer is None or chat_format(tokenizer).system_role,
        kv_dtype=kv.quantized or dtype,
        kv_offload=kv.offload,
        speculation=asked_for(request) if speculates else None,
    )
    chunk = None if kv.quantized else chunk_tokens(model.config.model_type, device.type, params, request.prefill_chunk)
    lookup = speculates and request.speculate == "ngram"
    return Loaded(model, tokenizer, info, device, eos_ids(model, tokenizer), chunk or limit, kv, devices, lookup)


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


def _versions(quant: Quant, kv: KvCache) -> dict[str, str]:
    packed = ["bitsandbytes"] if quant not in {"none", "int4"} else []
    names = ["torch", "transformers", *packed, *kv.packages]
    found = {name: importlib.metadata.version(name) for name in names}
    return {"llmcli": __version__, "python": platform.python_version(), **found}


def _shared(processes: int) -> str:
    return f" × {processes} processes (tensor parallel)" if processes > 1 else ""


def _layout_notices(request: LoadRequest, devices: Sequence[torch.device]) -> Iterator[str]:
    if not request.spread:
        return
    if devices[0].type != "cuda":
        yield f"--device-map auto has no effect: torch finds no GPU, and runs on {devices[0]}"
    elif devices[-1].type == "cpu":
        yield "the GPUs are too small for the model: some layers lie in main memory, and every step copies them"


def _notices(device: torch.device, model: Any, tokenizer: Any) -> tuple[str, ...]:
    idle = device_rules.idle_gpu_notice(device)
    return (*([idle] if idle else []), *(() if tokenizer is None else tokenizer_notices(model, tokenizer)))
