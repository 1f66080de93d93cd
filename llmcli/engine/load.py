"""From a load request to a model that is ready to answer."""

import math
from dataclasses import replace
from typing import Any

import torch

from llmcli import ranks
from llmcli.engine import device as devices
from llmcli.engine.adopting import with_steps
from llmcli.engine.attention import use_grouped_attention
from llmcli.engine.cache import kv_bytes
from llmcli.engine.capturing import with_graphs
from llmcli.engine.checkpoint import Layout, dtype_name, load_model, load_tokenizer, read_config, resolve_dtype
from llmcli.engine.decode.eager import forward
from llmcli.engine.describe import describe
from llmcli.engine.drafting import may_speculate, require_draft
from llmcli.engine.failures import translate
from llmcli.engine.head import read_head_in_place
from llmcli.engine.kv import KvCache, kv_of
from llmcli.engine.loaded import Loaded
from llmcli.engine.quantize import choose_quant, stored_as
from llmcli.engine.tensor_parallel import lead, refuse_sharding
from llmcli.errors import LlmcliError, ModelError, OutOfMemory
from llmcli.inference import Clock, LoadRequest, Quant
from llmcli.kv_rules import refuse_float, refuse_kv
from llmcli.load_rules import INT8_DTYPE, QUANTIZED_SHARE
from llmcli.units import bytes_text

_CURE = "Use --quant int4 (on a CPU) or nf4, a smaller model, or free memory first."
_NO_QUANT = "Quantization may not support its shapes: --quant none."


def load(request: LoadRequest, clock: Clock) -> Loaded:
    """Load weights and tokenizer, check that they are whole, and run one token to set the kernels up.

    Raises UsageError for a device or dtype that is not there, ModelError for a model that cannot run, OutOfMemory.
    """
    started = clock()
    device = devices.resolve_device(request.device)
    quant: Quant = "none"
    try:
        config = read_config(request.path)
        drafts = request.draft if may_speculate(config) else None
        if drafts is not None:
            require_draft(request, drafts, config)
        stored = stored_as(config)
        quant = choose_quant(request, stored, device)
        asked = INT8_DTYPE if quant == "int8" else request.dtype
        dtype = resolve_dtype(asked, config, request.stored_dtype)
        kv = _kv(request, config, dtype, device)
        _refuse_too_large(request, dtype, "none" if stored else quant, device)
        model = load_model(request.path, config, dtype, quant, _layout(request, config, device))
        tokenizer = None if request.weights_only else load_tokenizer(request.path)
        attention = use_grouped_attention(model)
        read_head_in_place(model)
        _warm_up(request, model, kv)
        draft = None if drafts is None else load(replace(drafts, decode="eager"), clock)
        loaded = describe(request, model, tokenizer, attention=attention)
        loaded = with_steps(loaded if draft is None else _with_draft(loaded, draft), request)
        loaded = replace(loaded, info=replace(loaded.info, load_seconds=clock() - started))
        loaded = with_graphs(loaded, request)
        return lead(loaded) if ranks.world() > 1 and ranks.rank() == 0 else loaded
    except LlmcliError:
        raise
    except Exception as error:
        ours = translate(error, f"loading {request.name}", _CURE)
        if isinstance(ours, OutOfMemory):
            raise ours from error
        hint = ours.hint if quant == "none" else _NO_QUANT
        raise ModelError(ours.message, hint) from error


def _kv(request: LoadRequest, config: Any, dtype: torch.dtype, device: torch.device) -> KvCache:
    """How K and V will be kept. Raises UsageError, before any weight is read, where the model cannot have it so."""
    refuse_kv(
        request.kv_dtype,
        offload=request.kv_offload,
        drafting=request.drafting,
    )
    refuse_float(request.kv_dtype, dtype_name(dtype))
    kv = kv_of(request, device.type)
    if kv.quantized is not None:
        kv.new(config)
    return kv


def _layout(request: LoadRequest, config: Any, device: torch.device) -> Layout:
    """Where the weights go. Raises LlmcliError for a model that several processes cannot share."""
    if ranks.world() > 1:
        refuse_sharding(config, request.name)
        return ranks.world()
    return "auto" if devices.spreads(device, asked=request.spread) else {"": device}


def _refuse_too_large(request: LoadRequest, dtype: torch.dtype, quant: Quant, device: torch.device) -> None:
    """Refuse before loading what cannot fit: weights in the chosen dtype against free memory, at the last moment."""
    if request.stored_bytes is None:
        return
    stored = getattr(torch, request.stored_dtype) if request.stored_dtype else dtype
    whole = request.stored_bytes * dtype.itemsize / stored.itemsize * QUANTIZED_SHARE[quant]
    needed = math.ceil(whole / ranks.world())
    spread = devices.spreads(device, asked=request.spread)
    free = devices.free_bytes(devices.everywhere() if spread else (device,))
    if needed > free:
        has = "GPUs and CPU have" if spread else f"{device} has"
        raise OutOfMemory(
            f"{request.name} needs {bytes_text(needed)} for its weights, {has} {bytes_text(free)} free", _CURE
        )


def _with_draft(loaded: Loaded, draft: Loaded) -> Loaded:
    """The model with its draft model, whose notices a person has to know as well."""
    said = loaded.info.notices
    more = (f"{draft.info.name}: {notice}" for notice in draft.info.notices if notice not in said)
    return replace(loaded, draft=draft).noting(*more)


@torch.inference_mode()
def _warm_up(request: LoadRequest, model: Any, kv: KvCache) -> None:
    """Run one token: libraries set up kernels and buffers on first use, and that is no part of a request.

    A model that leaves the cache empty keeps its state elsewhere or nowhere; it would answer every step as if it were
    the first.
    """
    cache = kv.new(model.config)
    forward(model, torch.zeros((1, 1), dtype=torch.long, device=devices.devices_of(model)[0]), cache)
    if kv_bytes(cache) == 0:
        raise ModelError(
            f"{request.path}: {model.config.model_type!r} models keep no state in transformers' cache, "
            "so they cannot be decoded token by token here",
            "llmcli runs decoder-only language models with a KV cache or a recurrent state in it.",
        )
