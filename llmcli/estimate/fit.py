"""What it takes to load a model and to talk to it: weights, a cache, what loading and the runtime themselves take."""

from dataclasses import dataclass, replace

from llmcli.estimate.architecture import Architecture
from llmcli.estimate.dtypes import BYTES, FLOATS, Format
from llmcli.estimate.engines.quantized_cache import PACKINGS
from llmcli.estimate.engines.transformers import TRANSFORMERS
from llmcli.estimate.fitting import UNLIMITED, largest
from llmcli.estimate.layers import Layers, allocated_bytes, in_chunks, peak_bytes
from llmcli.estimate.moments import Moments, moments_of
from llmcli.estimate.overhead import CPU_RUNTIME, CUDA_CONTEXT
from llmcli.estimate.weights import weight_bytes
from llmcli.inference import Quant
from llmcli.load_rules import QUANTIZED_SHARE
from llmcli.prefill_rules import CONTINUABLE, CPU_CHUNK, CUDA_CHUNK, MPS_CHUNK
from llmcli.units import MIB

USEFUL_CONTEXT = 2048
"""A model that cannot hold so many tokens, or as many as it is asked for, is not worth loading."""

RUNTIME_BYTES = {"cpu": CPU_RUNTIME, "mps": CPU_RUNTIME, "cuda": CUDA_CONTEXT}
"""What the runtime takes: on a CPU libraries and the activations of one short prefill chunk, on CUDA a context."""

_WORKSPACE = {"cpu": (4, 256 * MIB), "mps": (4, 256 * MIB), "cuda": (2, 0)}
"""What quantizing takes beside its result, and gives back: bytes per linear weight of one layer, and a fixed part.

On a CPU it was measured up to 2.5 bytes for int8 and 4.1 for nf4 with layers of 218 M weights, and up to 0.4 GiB in
all with layers of 45 M. Unquantized weights take nothing more: they are mapped, or cast one after the other.
"""

_INT4_WORKSPACE = (4, 128 * MIB)
"""The same for int4: measured up to 6 bytes per weight of the largest linear layer, which is less than 4 per linear
weight of its decoder layer, and 0.04 GiB in all with layers of 3.5 M weights."""

_CHUNKS = {"cpu": CPU_CHUNK, "mps": MPS_CHUNK, "cuda": CUDA_CHUNK}

_STEP = 256


@dataclass(frozen=True, slots=True)
class Stored:
    """A model before it is loaded. architecture: None where its family cannot be sized.

    bytes, dtype: the weights as they lie on disk (torch's name, None: not known). quant: what they are quantized to
    already. experts: most weights are those of experts, which bitsandbytes leaves as they are.
    """

    architecture: Architecture | None
    bytes: int
    dtype: str | None
    quant: Quant | None = None
    experts: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    """How a model is to be loaded. dtype: torch's name. device: cpu, mps or cuda. batch: sequences at once.

    kv_dtype: as `--kv-dtype` names it, None for the model's dtype. prefill_chunk: prompt tokens per forward, None for
    the engine's own. kv_offload: all layers of the cache but two, the one at work and the next, are elsewhere.
    """

    quant: Quant
    dtype: str
    device: str
    batch: int = 1
    kv_dtype: str | None = None
    prefill_chunk: int | None = None
    kv_offload: bool = False


@dataclass(frozen=True, slots=True)
class Need:
    """What a model takes in one setting, in bytes. layers: none where the cache cannot be sized.

    limit: the model's own context limit in tokens, None where it has none. moments: of its forwards, None where they
    are part of the runtime or not known. batch: sequences at once, each of as many tokens as a context has.
    """

    weights: int
    workspace: int
    runtime: int
    layers: Layers
    limit: int | None
    moments: Moments | None = None
    batch: int = 1

    def cache(self, context: int) -> int:
        """The most that the KV cache gets until it holds `context` tokens and decode has begun."""
        return self.batch * max(peak_bytes(self.layers, context), allocated_bytes(self.layers, context))

    def forward(self, context: int) -> int:
        """What the largest moment takes beside the cache, of a prefill of `context` tokens and of decode after it."""
        if self.moments is None:
            return 0
        held = self.batch * allocated_bytes(self.layers, context)
        step = held + self.moments.decode(context, self.batch) - self.cache(context)
        return max(self.moments.prefill(context, self.batch), step)

    def held(self, context: int) -> int:
        """What the largest moment takes beside weights and runtime."""
        return self.cache(context) + self.forward(context)

    def total(self, context: int) -> int:
        """All of it, with a cache of `context` tokens. What quantizing takes is free again before the cache grows."""
        return self.weights + self.runtime + max(self.workspace, self.held(context))

    def useful_context(self, asked: int | None) -> int:
        """The context that has to fit: USEFUL_CONTEXT, or what is asked for or possible where that is less."""
        return min(limit for limit in (USEFUL_CONTEXT, self.limit, asked) if limit is not None)

    def longest(self, free: int) -> int | None:
        """The longest context that `free` bytes hold, None where that is the model's own limit or cannot be told.

        Rounded down to a multiple of 256 tokens: free memory changes by more than that from moment to moment.
        """
        if not self.layers:
            return None
        room = free - self.weights - self.runtime
        longest = largest(lambda context: self.held(context) <= room, self.limit or UNLIMITED)
        if longest == self.limit:
            return None
        return longest // _STEP * _STEP or longest


def need_of(stored: Stored, setting: Setting) -> Need:
    """What `stored` takes when it is loaded in `setting`. Raises UsageError for a cache that it cannot have."""
    model = stored.architecture
    return Need(
        weights=_weights(stored, setting),
        workspace=_workspace(stored, setting),
        runtime=RUNTIME_BYTES[setting.device],
        layers=() if model is None else _layers(model, setting),
        limit=None if model is None else model.positions,
        moments=None if model is None else _moments(model, setting),
        batch=setting.batch,
    )


def _kv(setting: Setting) -> Format:
    return FLOATS[setting.dtype] if setting.kv_dtype is None else TRANSFORMERS.kv_format(setting.kv_dtype)


def _moments(model: Architecture, setting: Setting) -> Moments | None:
    """Those of a GPU, and of a batch: the runtime has only the activations of one short chunk in it."""
    if setting.device != "cuda" and setting.batch == 1:
        return None
    kv, own = _kv(setting), _CHUNKS[setting.device]
    chunk = (setting.prefill_chunk or own) if model.model_type in CONTINUABLE else None
    moments = moments_of(model, TRANSFORMERS.name, chunk, kv, setting.dtype)
    return replace(moments, chunk=None, quantized=True) if kv.name in PACKINGS else moments


def _layers(model: Architecture, setting: Setting) -> Layers:
    """The cache while a prompt is read: in pieces, where the engine reads this type and fills this cache in pieces."""
    kv = _kv(setting)
    layers = TRANSFORMERS.storage(model, kv, setting.dtype)
    if setting.kv_offload:
        layers = _two(layers)
    if kv.name in PACKINGS or model.model_type not in CONTINUABLE:
        return layers
    return in_chunks(layers, setting.prefill_chunk or CUDA_CHUNK)


def _two(layers: Layers) -> Layers:
    """The two layers that take most. transformers' own cache, which moves layers to and fro, reserves nothing."""
    wide = max(layers, key=lambda group: group.spec.peak_bytes(USEFUL_CONTEXT))
    return (replace(wide, spec=replace(wide.spec, reserve=0), count=2),)


def _weights(stored: Stored, setting: Setting) -> int:
    if stored.quant is not None:
        return stored.bytes
    if stored.architecture is not None:
        return weight_bytes(stored.architecture, setting.quant, setting.dtype)
    share = 1.0 if stored.experts else QUANTIZED_SHARE[setting.quant]
    before = BYTES[stored.dtype] if stored.dtype else BYTES[setting.dtype]
    return int(stored.bytes * share * BYTES[setting.dtype] / before)


def _workspace(stored: Stored, setting: Setting) -> int:
    if setting.quant == "none" or stored.quant is not None:
        return 0
    per_weight, fixed = _INT4_WORKSPACE if setting.quant == "int4" else _WORKSPACE[setting.device]
    model = stored.architecture
    packing = fixed + (0 if model is None else per_weight * model.linear_params // model.layer_count)
    if setting.quant != "int4" or stored.dtype in {None, setting.dtype}:
        return packing
    # llmcli packs a model that transformers has loaded: in another dtype than that of the files it is in memory first
    return max(packing, _weights(stored, replace(setting, quant="none")) - _weights(stored, setting))
