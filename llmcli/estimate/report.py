"""The answer of `estimate-kv`: the JSON contract `llmcli.estimate/1`. All sizes in bytes, lengths in tokens."""

from dataclasses import dataclass

SCHEMA = "llmcli.estimate/1"


@dataclass(frozen=True, slots=True)
class ModelPart:
    """The model. params: embedding, decoder and head, tied ones once. vision_params: of the towers beside it."""

    name: str
    architecture: str
    params: int
    active_params: int
    vision_params: int


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
    """The KV cache of one sequence: bytes per token while it is short, per token in the long run, and fixed."""

    dtype: str
    bytes_per_token_short: int
    bytes_per_token_asymptotic: int
    fixed_bytes: int
    exact: bool
    layers: tuple[LayerPart, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One combination of context and batch.

    kv_bytes: with `context` tokens held after decode has begun; kv_peak_bytes: at the end of prefill;
    kv_allocated_bytes: what the decode path reserves. total_bytes: the largest of them and all else that is known.
    """

    context: int
    batch: int
    kv_bytes: int
    kv_peak_bytes: int
    kv_allocated_bytes: int
    weights_bytes: int
    activation_bytes: int | None
    overhead_bytes: int | None
    total_bytes: int
    vram_bytes: int | None
    fits: bool | None
    headroom_bytes: int | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """The whole answer. max_context: the longest context that fits at every batch asked for; None without a VRAM."""

    schema: str
    engine: str
    engine_version: str
    model: ModelPart
    kv: KvPart
    rows: tuple[Row, ...]
    max_context: int | None
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]
