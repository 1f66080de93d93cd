"""The answer of `estimate-kv`: the JSON contract `llmcli.estimate/1`. All sizes in bytes, lengths in tokens."""

from dataclasses import dataclass

SCHEMA = "llmcli.estimate/1"


@dataclass(frozen=True, slots=True)
class ModelPart:
    """The model. params: embedding, decoder and head, tied ones once. active_params: those that one token uses.

    vision_params: of the towers beside it, None where they are not known.
    """

    name: str
    architecture: str
    params: int
    active_params: int
    vision_params: int | None


@dataclass(frozen=True, slots=True)
class LayerPart:
    """`count` layers of one kind. bytes_per_token, max_tokens and fixed_bytes are those of one layer."""

    kind: str
    count: int
    bytes_per_token: int
    max_tokens: int | None
    fixed_bytes: int


@dataclass(frozen=True, slots=True)
class KvPart:
    """The KV cache of one sequence: bytes per token while it is short, per token in the long run, and fixed.

    exact: equal to the real cache to the byte; inexact: why it is not.
    """

    dtype: str
    bytes_per_token_short: int
    bytes_per_token_asymptotic: int
    fixed_bytes: int
    exact: bool
    inexact: tuple[str, ...]
    layers: tuple[LayerPart, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One combination of context and batch.

    kv_bytes: with `context` tokens held after decode has begun; kv_peak_bytes: at the end of prefill;
    kv_allocated_bytes: what the decode path reserves. activation_bytes: what the largest moment takes beside weights,
    overhead and the larger of kv_peak_bytes and kv_allocated_bytes, logits included, an estimate; the four add up to
    total_bytes. overhead_bytes: what the
    runtime takes on all devices, an assumption. headroom_bytes: what is left, or short, where whole layers are split
    among several devices.
    """

    context: int
    batch: int
    kv_bytes: int
    kv_peak_bytes: int
    kv_allocated_bytes: int
    weights_bytes: int
    activation_bytes: int
    overhead_bytes: int
    total_bytes: int
    vram_bytes: int | None
    fits: bool | None
    headroom_bytes: int | None


@dataclass(frozen=True, slots=True)
class GpuPart:
    """One GPU as its driver describes it."""

    index: int
    name: str
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class ComparisonPart:
    """The same cache in another engine. ratio: its kv_bytes by those of the engine that was asked for."""

    engine: str
    engine_version: str
    context: int
    batch: int
    kv_bytes: int
    ratio: float


@dataclass(frozen=True, slots=True)
class MixPart:
    """Several requests at once: in pages as long as each is, or reserved at the length of the longest."""

    contexts: tuple[int, ...]
    paged_bytes: int
    reserved_bytes: int
    wasted_bytes: int
    wasted_share: float
    total_bytes: int
    fits: bool | None


@dataclass(frozen=True, slots=True)
class PromptPart:
    """A prompt in a file, as the model's tokenizer splits it."""

    file: str
    tokens: int
    characters: int
    characters_per_token: float


@dataclass(frozen=True, slots=True)
class AdvicePart:
    """One change to a request that does not fit. change: as flags write it; saved_bytes: what the total loses by it."""

    change: str
    saved_bytes: int
    total_bytes: int
    fits: bool
    max_context: int


@dataclass(frozen=True, slots=True)
class DecodePart:
    """What a decode step reads at one depth, and the ceiling that the bandwidth sets.

    tokens_per_second: of all sequences together. slowdown: seconds per step by those of an empty context.
    """

    context: int
    batch: int
    weights_read_bytes: int
    kv_read_bytes: int
    seconds_per_step: float
    tokens_per_second: float
    slowdown: float


@dataclass(frozen=True, slots=True)
class VerifyPart:
    """A cache that was really built. how: `meta` (shapes only) or `real`. difference_bytes: measured less estimated."""

    how: str
    context: int
    batch: int
    estimated_bytes: int
    measured_bytes: int
    difference_bytes: int
    estimated_peak_bytes: int
    measured_peak_bytes: int
    estimated_params: int
    measured_params: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """The whole answer. max_context: the longest context that fits at every batch asked for; None without a VRAM.

    comparison: the last row in the other engines. decode: empty without a bandwidth. verified: None unless asked for.
    """

    schema: str
    engine: str
    engine_version: str
    model: ModelPart
    kv: KvPart
    rows: tuple[Row, ...]
    max_context: int | None
    comparison: tuple[ComparisonPart, ...]
    mix: MixPart | None
    prompt: PromptPart | None
    gpus: tuple[GpuPart, ...]
    advice: tuple[AdvicePart, ...]
    decode: tuple[DecodePart, ...]
    verified: tuple[VerifyPart, ...]
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]
