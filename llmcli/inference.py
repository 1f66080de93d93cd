"""The engine interface: what is asked of an engine, and what it answers. Standard library only.

One request of n generated tokens is one prefill and n-1 decode steps; the first token comes from prefill.
An engine reports raw facts (`Trace`: counts and clock readings); rates and shares are derived in `metrics`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from llmcli.errors import LlmcliError

Role = Literal["system", "user", "assistant"]
FinishReason = Literal["eos", "stop", "length", "context", "memory", "interrupted", "error"]
Quant = Literal["none", "int8", "nf4", "fp4", "int4"]
QuantChoice = Literal["auto", "none", "int8", "nf4", "fp4", "int4"]
DecodeChoice = Literal["auto", "eager", "graph", "compiled"]
DecodeName = Literal["eager", "graph", "compiled"]
Speculation = Literal["none", "ngram"]
CacheSource = Literal["none", "live", "session"]
MissReason = Literal["prefix_changed", "expired", "evicted", "model_changed", "not_croppable"]
Clock = Callable[[], float]
"""Seconds from a monotonic clock."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """A model to load. `path`: a directory of safetensors weights with config and tokenizer.

    quant: `auto` quantizes only what was packed to about 4 bits already: to nf4 on CUDA, to int4 on a CPU.
    dtype: `auto` (the checkpoint's) or a torch name. device: auto, cpu, mps, cuda or cuda:N.
    context: upper bounds on prompt + generated tokens, each with who sets it; the model's own limit holds as well.
    stored_bytes, stored_dtype: the weights as they lie on disk (dtype: torch's name), None where that is not known.
    packed_bits, packed_type: bits per weight, and ggml's name, of the format that most of the GGUF file is in that the
    directory was converted from; None for other directories.
    """

    path: Path
    name: str
    source: str
    revision: str | None = None
    quant: QuantChoice = "none"
    dtype: str = "auto"
    device: str = "auto"
    context: tuple[tuple[int, str], ...] = ()
    stored_bytes: int | None = None
    stored_dtype: str | None = None
    packed_bits: float | None = None
    packed_type: str | None = None
    weights_only: bool = False
    """Load without a tokenizer: enough for `bench`, which feeds ids."""
    decode: DecodeChoice = "auto"
    """The decode path; `auto` takes what is known to be fastest for model and device."""
    speculate: Speculation = "none"
    """Where drafts of the next tokens come from when there is no draft model."""
    draft: "LoadRequest | None" = None
    """A smaller model of the same tokenizer that drafts tokens."""
    kv_dtype: str = "auto"
    """What K and V are kept in: `auto` is the model's dtype; others are lossy."""
    kv_offload: bool = False
    """Keep K and V in main memory, all but those of the layer at work."""
    prefill_chunk: int | None = None
    """Prompt tokens per forward; None lets the engine choose."""
    spread: bool = False
    """Lay the layers out over all devices that there are (`--device-map auto`)."""

    @property
    def drafting(self) -> bool:
        """Whether tokens are to be drafted, by whatever."""
        return self.speculate != "none" or self.draft is not None


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """Sampling values that somebody set; None means unset, and an explicit 0 is never unset."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    max_new_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    """The values in force. temperature 0 is greedy; top_k 0, top_p 1, min_p 0 and repetition_penalty 1 are off.

    origins: where each came from: `/set`, `flag`, `models.toml`, `generation_config.json`, `default`, or `drawn` for
    a seed.
    """

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    seed: int | None
    max_new_tokens: int
    origins: dict[str, str] = field(default_factory=dict)

    @property
    def greedy(self) -> bool:
        """Whether the most likely id is taken at every step."""
        return self.temperature == 0


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A loaded model, as it runs. Sizes in bytes; `context_limit` in tokens, prompt and answer together.

    streamed_bytes: weights that a decode step reads (not an untied input embedding); None where experts make it vary.
    context_bound_by: who sets the context limit, `model` or a name of the request's `context`.
    threads: of the CPU kernels. cache_reuse: whether a request may continue the cache of the one before it.
    system_role: whether the chat template takes a system message; where it does not, its text goes into the first
    user message. kv_dtype: what K and V are kept in, torch's name or fp8, int8, int4; kv_offload: whether in main
    memory. speculation: where drafts of the next tokens come from, in words; None without.
    """

    name: str
    source: str
    revision: str | None
    architecture: str
    params: int
    quant: str
    dtype: str
    weight_bytes: int
    streamed_bytes: int | None
    device: str
    attention: str
    decode_path: str
    context_limit: int
    context_bound_by: str
    vocab_size: int
    threads: int
    load_seconds: float
    generation_defaults: SamplingOptions
    versions: dict[str, str]
    notices: tuple[str, ...] = ()
    cache_reuse: bool = False
    system_role: bool = True
    kv_dtype: str = ""
    kv_offload: bool = False
    speculation: str | None = None


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """One request. `prompt`: the conversation to answer, or exact token ids.

    ignore_eos: run to max_new_tokens whatever comes (bench). stop: texts that end the answer, never part of it.
    reuse_cache: continue the cache of the last such request as far as the ids agree, and keep this one's.
    beside: prompts of exactly as many ids, run beside it as further rows of one batch (bench).
    """

    prompt: tuple[Message, ...] | tuple[int, ...]
    sampling: Sampling
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    reuse_cache: bool = False
    beside: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    """`evaluated` of `total` prompt tokens have been run through the model."""

    evaluated: int
    total: int


@dataclass(frozen=True, slots=True)
class Piece:
    """One generated token: its id, the text it completed (often, but not always, its own) and its arrival.

    beside: the ids that the other rows of a batch got in the same step. more: whether what comes next is known already,
    so that both can be shown at once.
    """

    token_id: int
    text: str
    arrived: float
    beside: tuple[int, ...] = ()
    more: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """Raw facts of one request: token counts, and clock readings in seconds of the engine's clock.

    A reading is None when the request ended before that event. `arrivals` has one reading per generated token. Counts
    are those of one row of a batch of `batch` sequences. steps: decode forwards. drafted, accepted: tokens that
    speculation proposed, and those of them that became part of the answer; steps + accepted is generated - 1.
    cache_break_at: the position from which a cache that was there did not agree with the prompt, None where it agreed
    to its end or there was none. cache_age: seconds since its last use. miss_reason: why less than all of it was used.
    """

    prompt: int
    cached: int
    evaluated: int
    truncated: int
    steps: int
    arrivals: tuple[float, ...]
    submitted: float
    taken: float | None
    templated: float | None
    tokenized: float | None
    prefill_started: float | None
    prefill_ended: float | None
    ended: float
    detokenize: float
    finish_reason: FinishReason
    peak_bytes: int | None = None
    kv_bytes: int | None = None
    error: LlmcliError | None = None
    cache_source: CacheSource = "none"
    cache_age: float | None = None
    cache_break_at: int | None = None
    miss_reason: MissReason | None = None
    drafted: int = 0
    accepted: int = 0
    batch: int = 1
    decode_path: DecodeName | None = None
    capture_seconds: float = 0.0
    """What capturing CUDA graphs took: part of `unattributed` before the prefill, of decode after it."""
    notices: tuple[str, ...] = ()
    """What a person should know about how the request was served."""

    @property
    def generated(self) -> int:
        """Generated tokens, the one that ended the answer included."""
        return len(self.arrivals)


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of every request, whatever ended it. `text`: what was still held back."""

    text: str
    trace: Trace


Event = PrefillProgress | Piece | Finished


class Cancel(Protocol):
    """What asks a running request to end within one step; `threading.Event` is one."""

    def is_set(self) -> bool:
        """Whether the request should end."""
        ...


class Engine(Protocol):
    """A loaded model behind one inference thread (or one endpoint)."""

    clock: Clock
    """The clock of every reading in a Trace."""

    @property
    def info(self) -> ModelInfo:
        """The loaded model."""
        ...

    def generate(self, request: GenerateRequest, cancel: Cancel) -> Iterator[Event]:
        """Run one request; the iterator ends with exactly one `Finished`, also after an error or a cancel.

        Raises UsageError before any event when the prompt does not fit the context, or when prompts beside it are of
        other lengths.
        """
        ...

    def close(self) -> None:
        """End the inference thread."""
        ...
