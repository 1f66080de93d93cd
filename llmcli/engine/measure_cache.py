"""The KV cache that transformers really makes of a config: built, filled and weighed.

On torch's meta device tensors have shapes and no memory, so that a model of any size can be built in a second; `real`
builds it with random weights in memory. The weights do not matter: sizes follow from shapes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import psutil
import torch
from transformers import CONFIG_MAPPING, AutoConfig, AutoModelForCausalLM, DynamicCache, PreTrainedModel

from llmcli.engine.failures import reason_of
from llmcli.engine.quiet import quiet
from llmcli.engine.tensors import tensors_in
from llmcli.errors import LlmcliError, ModelError, OutOfMemory
from llmcli.units import bytes_text

How = Literal["meta", "real"]

_NOT_HELD = {"_sliding_window_tensor", "cumulative_length"}
_NOT_FACTS = ("auto_map", "quantization_config")
_NO_MEMORY = "`--verify meta` needs none."
_DECODE_STEPS = 2


@dataclass(frozen=True, slots=True)
class Measured:
    """A cache with `context` tokens in each of `batch` sequences.

    held_bytes: of the rows that it holds after decode has begun; peak_bytes: of the memory behind them at the end of a
    prefill in one piece. params: of the language model, tied ones once.
    """

    context: int
    batch: int
    held_bytes: int
    peak_bytes: int
    params: int


def measure_cache(
    config: Mapping[str, Any], sizes: Sequence[tuple[int, int]], how: How, dtype: str, needed_bytes: int
) -> Iterator[Measured]:
    """Build the language model that `config` describes and fill a cache for every (context, batch) of `sizes`.

    dtype: torch's name of what it runs in. needed_bytes: what weights and the largest cache take when they are real.
    Raises ModelError when transformers has no class for the config or cannot build or run it this way, OutOfMemory
    when real weights and cache do not fit into what is free.
    """
    quiet()
    if how == "real" and needed_bytes > (free := psutil.virtual_memory().available):
        raise OutOfMemory(
            f"building it takes {bytes_text(needed_bytes)} of memory; {bytes_text(free)} are free", _NO_MEMORY
        )
    device = "meta" if how == "meta" else "cpu"
    try:
        model = build_model(config, device, getattr(torch, dtype))
        params = sum(parameter.numel() for parameter in model.parameters())
        for context, batch in sizes:
            yield _measure(model, context, batch, params)
    except LlmcliError:
        raise
    except Exception as error:  # whatever a model's code raises on shapes without values
        raise _cannot(how, error) from error


def build_model(config: Mapping[str, Any], device: str, dtype: torch.dtype) -> PreTrainedModel:
    """The language model of `config`, with random or no weights. Raises ModelError for a type without a class."""
    values = {key: value for key, value in config.items() if key not in _NOT_FACTS}
    model_type = values.get("model_type")
    if model_type not in CONFIG_MAPPING:
        raise ModelError(
            f"transformers has no class for the model type {model_type!r}",
            "There is nothing to verify its size against: its own code would have to run.",
        )
    whole = AutoConfig.for_model(**values)
    # The default kernel for experts runs on shapes alone in bfloat16 only, this one in every dtype.
    experts = {"experts_implementation": "batched_mm"} if device == "meta" and dtype != torch.bfloat16 else {}
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(whole.get_text_config(decoder=True), dtype=dtype, **experts)
    return model.eval()


def fill_cache(model: PreTrainedModel, batch: int, prompt: int, steps: int) -> DynamicCache:
    """A cache after a prefill of `prompt` tokens in one piece and `steps` decode steps."""
    cache = DynamicCache(config=model.config)
    ids = torch.zeros(batch, prompt, dtype=torch.long, device=model.device)
    with torch.no_grad():
        model(input_ids=ids, cache=cache, use_cache=True, logits_to_keep=1)
    decode(model, cache, batch, steps)
    return cache


def decode(model: PreTrainedModel, cache: DynamicCache, batch: int, steps: int) -> None:
    """Go on by `steps` tokens in each of the `batch` sequences that the cache holds."""
    ids = torch.zeros(batch, 1, dtype=torch.long, device=model.device)
    with torch.no_grad():
        for _ in range(steps):
            model(input_ids=ids, cache=cache, use_cache=True)


def held_bytes(cache: DynamicCache) -> int:
    """Bytes of the rows and states that the cache holds, a tensor that is keys and values at once counted once."""
    tensors = {id(tensor): tensor for tensor in held_tensors(cache)}
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def resident_bytes(cache: DynamicCache) -> int:
    """Bytes of the memory behind them: after a prefill, a sliding layer's rows are a view of the whole prompt's."""
    storages = [tensor.untyped_storage() for tensor in held_tensors(cache)]
    return sum({storage._cdata: storage.nbytes() for storage in storages}.values())


def _measure(model: PreTrainedModel, context: int, batch: int, params: int) -> Measured:
    peak = resident_bytes(fill_cache(model, batch, context, 0))
    steps = min(_DECODE_STEPS, context - 1)
    held = held_bytes(fill_cache(model, batch, context - steps, steps))
    return Measured(context, batch, held, peak, params)


def held_tensors(cache: DynamicCache) -> Iterable[torch.Tensor]:
    """Every tensor that the layers of the cache hold: rows, states, buffers."""
    for layer in cache.layers:
        for name, value in vars(layer).items():
            if name not in _NOT_HELD:
                yield from tensors_in(value)


def _cannot(how: How, error: Exception) -> ModelError:
    what = f"{type(error).__name__}: {reason_of(error)}"
    if how == "meta":
        return ModelError(
            f"transformers cannot run this model on shapes alone ({what})",
            "`--verify real` builds it in memory.",
        )
    return ModelError(f"transformers cannot build or run this model ({what})")
