"""How K and V are kept: as the model makes them, quantized, or in main memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from transformers import Cache, DynamicCache, QuantizedCache

from llmcli.engine.cache import new_cache
from llmcli.errors import UsageError
from llmcli.inference import LoadRequest
from llmcli.kv_rules import QUANTIZED, kv_backend, parse_kv_dtype
from llmcli.prefill_rules import CONTINUABLE

_BITS = {"int8": 8, "int4": 4}
_DISTRIBUTIONS = {"hqq": ("hqq",), "quanto": ("optimum-quanto",)}


@dataclass(frozen=True, slots=True)
class KvCache:
    """How the caches of a model are made.

    quantized: the format, None for the dtype that the model runs in. offload: all layers but the one at work lie in
    main memory. limit: the most tokens that one will be asked to hold, None: not known.

    A quantized cache is filled by one forward, in which attention reads K and V as the model made them; later forwards
    read them rounded. fp8 keeps the scale of the first forward. So a request that continues it answers as a fresh cache
    that is filled by the same forwards, and not as one that reads the whole prompt at once. It cannot be cropped.
    """

    quantized: str | None = None
    offload: bool = False
    limit: int | None = None

    @property
    def packages(self) -> tuple[str, ...]:
        """The distributions that pack it, beside transformers."""
        return () if self.quantized is None else _DISTRIBUTIONS.get(kv_backend(self.quantized), ())

    def new(self, config: Any) -> Cache:
        """An empty cache for a model with `config`. Raises UsageError where it cannot be quantized."""
        if self.quantized is not None:
            return _quantized(config, self.quantized)
        return DynamicCache(config=config, offloading=True) if self.offload else new_cache(config, self.limit)


def kv_of(request: LoadRequest, device_type: str, limit: int | None = None) -> KvCache:
    """How `request` wants K and V kept on a kind of device; only a GPU has a memory of its own to spare."""
    name = parse_kv_dtype(request.kv_dtype)
    return KvCache(name if name in QUANTIZED else None, request.kv_offload and device_type == "cuda", limit)


def kv_notices(request: LoadRequest, kv: KvCache, device_type: str, model_type: str) -> Iterator[str]:
    """What a person should know of a setting that loses precision or changes nothing."""
    if kv.quantized is not None:
        yield (
            f"--kv-dtype {kv.quantized} is lossy: K and V are rounded, so answers may differ; prompts are read in one "
            "piece, and a prompt that does not continue the last one is evaluated whole"
        )
    if request.kv_offload and not kv.offload:
        yield f"--kv-offload has no effect on {device_type}: K and V are in main memory already"
    if request.prefill_chunk is not None:
        if kv.quantized is not None:
            yield "--prefill-chunk has no effect with a quantized KV cache, which is filled in one piece"
        elif model_type not in CONTINUABLE:
            yield f"--prefill-chunk has no effect: {model_type} reads a prompt in one piece"


def _quantized(config: Any, name: str) -> QuantizedCache:
    backend = kv_backend(name)
    options = {"nbits": _BITS[name]} if name in _BITS else {}
    try:
        return QuantizedCache(backend, config, **options)
    except ValueError as error:
        raise UsageError(
            f"--kv-dtype {name}: transformers quantizes the cache of full-attention layers only, "
            "and this model has others",
            "Leave --kv-dtype out.",
        ) from error
    except ImportError as error:
        raise UsageError(f"--kv-dtype {name}: {error}", "Or take --kv-dtype fp8, which needs nothing more.") from error
