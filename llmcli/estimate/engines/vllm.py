"""The pages that vLLM needs for one request: what it asks for at the start, for the longest context it is to serve.

Read in vLLM 0.33.0. Settings of `vllm serve` on one GPU of less than 70 GiB: blocks of 16 tokens, steps of 2048 tokens
(--max-num-batched-tokens; 8192 on larger GPUs), two of them in flight (asynchronous scheduling), prefix caching on.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from llmcli.errors import ModelError, UsageError
from llmcli.estimate.architecture import Architecture
from llmcli.estimate.dtypes import BYTES, Format
from llmcli.estimate.engines.kinds import kind_of
from llmcli.estimate.engines.kv_types import FP8_DS_MLA, vllm_format
from llmcli.estimate.engines.vllm_pages import Held, Policy, Pool
from llmcli.estimate.facts import Attention, CrossAttention, Latent, Mixer, Recurrence
from llmcli.estimate.layers import CROSS_ATTENTION, NO_CACHE, Layers, LayerSpec, grouped
from llmcli.units import GIB

READ_IN = "0.33.0"
BLOCK = 16
INDEXED_BLOCK = 64
"""Blocks where a sparse-attention indexer has its keys in the pool: its kernel takes no others."""

MAX_BATCHED_TOKENS = 2048
_LARGE_GPU = 70 * GIB
_LARGE_STEPS = 8192
_STEPS_IN_FLIGHT = 2
_LATENT_ALIGNMENT = 128
_STATES = 2
_FLOAT32 = 4
_INDEX_SCALED = 128
# fmt: off
_LATENT_TYPES = frozenset({
    "axk1", "bailing_hybrid", "deepseek_v2", "deepseek_v3", "deepseek_v32", "dots3_note", "dots3_note_text",
    "glm4_moe_lite", "glm5_next", "glm5_next_text", "glm_moe_dsa", "hy_v4", "kimi_k2", "kimi_k25", "kimi_linear",
    "longcat_flash",
})
"""Types whose latent rows are cached as they are (is_deepseek_mla)."""

_FLOAT_STATES = frozenset({
    "bailing_hybrid", "kimi_linear", "nemotron_h", "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text",
})
"""Types whose recurrent states are float32; those of others are in the dtype that the model runs in."""
# fmt: on


@dataclass(frozen=True, slots=True)
class VllmRules:
    """The rules of vLLM. max_batched_tokens: its --max-num-batched-tokens."""

    name: str = "vllm"
    version: str = READ_IN
    max_batched_tokens: int = MAX_BATCHED_TOKENS

    @property
    def step(self) -> int:
        """Its --max-num-batched-tokens."""
        return self.max_batched_tokens

    def reading(self, chunk: int) -> "VllmRules":
        """With another --max-num-batched-tokens."""
        return replace(self, max_batched_tokens=chunk)

    def on(self, vram: tuple[int, ...] | None) -> "VllmRules":
        """With the larger steps that it takes on large GPUs."""
        return replace(self, max_batched_tokens=_LARGE_STEPS) if vram and min(vram) >= _LARGE_GPU else self

    def default_kv(self, dtype: str) -> str:
        """The dtype that the model runs in."""
        return dtype

    def kv_format(self, text: str) -> Format:
        """A float format, or one of 8 bits. Raises UsageError for others."""
        return vllm_format(text)

    def storage(self, model: Architecture, kv: Format, dtype: str) -> Layers:
        """What every layer of `model` holds for one request.

        Raises UsageError for a format that the model's attention has not, ModelError for what is not known here.
        """
        rows = _Rows(model.language_type, kv, BYTES[dtype])
        held = [one for layer in model.layers for mixer in layer.mixers for one in rows.held(mixer)]
        bare = [LayerSpec(NO_CACHE, 0) for layer in model.layers if not layer.mixers]
        return grouped((*self._pool(model).layers(held), *bare))

    def inexact(self, model: Architecture) -> tuple[str, ...]:
        """Parts whose size depends on the attention kernel, or that vLLM sizes by its settings alone."""
        kinds = _kinds(model)
        reasons = []
        if Recurrence in kinds and len(kinds) > 1:
            reasons.append(
                "vLLM makes the pages of states and of attention equal by rules that depend on the attention kernel "
                f"and on prefix caching: taken as blocks of {BLOCK} tokens and {_STATES} states per sequence"
            )
        if CrossAttention in kinds:
            reasons.append("vLLM reserves cross-attention for the longest input that its encoder is set up for")
        if Latent in kinds and model.language_type not in _LATENT_TYPES:
            reasons.append(f"vLLM caches the latent attention of {model.language_type} as keys and values of all heads")
        return tuple(reasons)

    def assumptions(self, model: Architecture) -> tuple[str, ...]:
        """The settings that the sizes hold for."""
        windows = any(getattr(mixer, "window", None) for layer in model.layers for mixer in layer.mixers)
        steps = f", --max-num-batched-tokens {self.max_batched_tokens}, asynchronous scheduling" if windows else ""
        block = self._pool(model).block
        return (f"vllm: what a request of this length claims on one GPU, in blocks of {block} tokens{steps}",)

    def _pool(self, model: Architecture) -> Pool:
        mixers = [mixer for layer in model.layers for mixer in layer.mixers]
        indexed = any(isinstance(mixer, Latent) and mixer.index_dim for mixer in mixers)
        block = INDEXED_BLOCK if indexed else BLOCK
        latent = any(isinstance(mixer, Latent) for mixer in mixers)
        return Pool(
            block=block,
            alignment=max(block, _LATENT_ALIGNMENT) if latent else block,
            in_flight=_STEPS_IN_FLIGHT * self.max_batched_tokens,
            states=_STATES,
        )


VLLM = VllmRules()


@dataclass(frozen=True, slots=True)
class _Rows:
    """One type of model in one format. element: bytes of a number in the dtype that the model runs in."""

    model_type: str
    kv: Format
    element: int

    def held(self, mixer: Mixer) -> Iterator[Held]:
        """The cache layers of one mixer."""
        if isinstance(mixer, Attention):
            row = self._size(mixer.kv_heads * (mixer.key_dim + mixer.value_dim))
            yield Held(kind_of(mixer), _policy(mixer), row, mixer.window or 0)
        elif isinstance(mixer, Latent):
            yield Held(kind_of(mixer), _policy(mixer), self._latent(mixer), mixer.window or 0)
            if mixer.index_dim:
                scales = mixer.index_dim // _INDEX_SCALED * _FLOAT32
                yield Held("indexer", "full", mixer.index_dim + scales)
        elif isinstance(mixer, Recurrence):
            wide = mixer.float_state and self.model_type in _FLOAT_STATES
            columns = mixer.conv_channels * max(0, mixer.conv_width - 1) + mixer.shift
            state = columns * self.element + mixer.state * (_FLOAT32 if wide else self.element)
            yield Held(mixer.kind, "state", state=state)
        elif isinstance(mixer, CrossAttention):
            row = self._size(2 * mixer.kv_heads * mixer.head_dim)
            yield Held(CROSS_ATTENTION, "cross", row, mixer.tokens)
        else:
            raise ModelError(
                f"{self.model_type} cannot be sized for vLLM: how it stores {type(mixer).__name__.lower()} rows is "
                "not known here",
                "Leave --engine out: transformers' cache is known.",
            )

    def _latent(self, mixer: Latent) -> int:
        if self.model_type in _LATENT_TYPES:
            return self.kv.size(mixer.rank + mixer.rope_dim)
        return self._size(2 * mixer.heads * (mixer.nope_dim + mixer.rope_dim))

    def _size(self, numbers: int) -> int:
        if self.kv is FP8_DS_MLA:
            raise UsageError(
                f"--kv-dtype {FP8_DS_MLA.name} is for DeepSeek's latent attention, which {self.model_type} has not",
                "Write fp8.",
            )
        return self.kv.size(numbers)


def _policy(mixer: Attention | Latent) -> Policy:
    if mixer.window is None:
        return "full"
    return "chunked" if isinstance(mixer, Attention) and mixer.chunked else "sliding"


def _kinds(model: Architecture) -> set[type[Mixer]]:
    return {type(mixer) for layer in model.layers for mixer in layer.mixers}
