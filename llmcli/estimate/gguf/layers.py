"""What the layers of a GGUF file keep, as its keys say it.

Read in llama.cpp 0.5.0: src/llama-hparams.cpp (widths of keys, values and states), src/llama-model.cpp (create_memory:
which layers have a cache of which kind), src/models/*.cpp (which layers are recurrent).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from llmcli.errors import ModelError
from llmcli.estimate.facts import Attention, Latent, Mixer, Recurrence
from llmcli.estimate.gguf.keys import Keys
from llmcli.estimate.gguf.windows import windows_of
from llmcli.estimate.windows import Window, Windows

RECURRENT = frozenset({"arwkv7", "mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7"})
_BY_HEADS = frozenset(
    {
        "bailingmoe3",
        "glm5-next",
        "granitehybrid",
        "jamba",
        "kimi-k3",
        "kimi-linear",
        "lfm2",
        "lfm2moe",
        "nemotron_h",
        "nemotron_h_moe",
        "plamo2",
    }
)
_INTERVALS: Mapping[str, int] = {"minimax-01": 8, "qwen35": 4, "qwen35moe": 4, "qwen3next": 4, "qwen4exp": 4}
_BOTH = "falcon-h1"
_ONE_GROUP = frozenset({"jamba", "mamba"})
_INDEXED = frozenset({"deepseek32", "dots3note", "glm-dsa", "hy_v4"})
_INDEXED_KIND, _BOTH_KIND = "indexed_attention", "hybrid"
_LAYERS_WITH_CACHE = 20
_ALL_INDEXED_BELOW = 1_048_576
_KDA_CONV = 4


@dataclass(frozen=True, slots=True)
class Heads:
    """Attention heads per layer, and widths of one head: of full layers, and of those with a window."""

    heads: tuple[int, ...]
    kv_heads: tuple[int, ...]
    key_dim: int
    value_dim: int
    window_key_dim: int
    window_value_dim: int


def heads_of(keys: Keys) -> Heads:
    """The attention of the file. Raises ModelError naming the key that is missing or wrong."""
    heads = keys.per_layer("attention.head_count")
    if not any(heads) and keys.architecture not in RECURRENT:
        keys.needed("attention.head_count")
    divided = _divided(keys, heads[0])
    key_dim = keys.size("attention.key_length", divided)
    value_dim = keys.size("attention.value_length", divided)
    kv_heads = heads if keys.config.absent(("attention.head_count_kv",)) else keys.per_layer("attention.head_count_kv")
    return Heads(
        heads,
        kv_heads,
        key_dim,
        value_dim,
        keys.size("attention.key_length_swa", key_dim),
        keys.size("attention.value_length_swa", value_dim),
    )


def mixers_of(keys: Keys, heads: Heads) -> tuple[tuple[Mixer, ...], ...]:
    """What each layer of the trunk keeps."""
    recurrent = _recurrent(keys, heads)
    states = (_state(keys, heads),) if any(recurrent) else ()
    attention = _Attention(keys, heads, windows_of(keys), _indexed(keys))
    with_cache = _layers_with_cache(keys)
    held: list[tuple[Mixer, ...]] = []
    for index in range(keys.layers):
        own: tuple[Mixer, ...] = states if recurrent[index] else ()
        if heads.kv_heads[index] and (not own or keys.architecture == _BOTH):
            own = (attention.of(index), *own)
        held.append(own if index < with_cache else ())
    return tuple(held)


@dataclass(frozen=True, slots=True)
class _Attention:
    """The attention of the file. indexed: width of each layer's indexer key."""

    keys: Keys
    heads: Heads
    windows: Windows
    indexed: tuple[int, ...]

    def of(self, index: int) -> Mixer:
        """That of one layer."""
        window = self.windows[index]
        suffix = "_mla_swa" if window and self.keys.architecture == "dots3note" else "_mla"
        expanded = [self.keys.size(f"attention.{part}_length{suffix}") for part in ("key", "value")]
        if all(expanded):
            return self._latent(index, window, suffix.removeprefix("_mla"), expanded)
        heads, kv_heads = self.heads, self.heads.kv_heads[index]
        broadcast = self.keys.architecture == "falcon" and kv_heads > 1
        return Attention(
            kv_heads,
            heads.window_key_dim if window else heads.key_dim,
            heads.window_value_dim if window else heads.value_dim,
            window=window.tokens if window else None,
            chunked=window.chunked if window else False,
            cached_heads=heads.heads[index] if broadcast else None,
            kind=_BOTH_KIND if self.keys.architecture == _BOTH else None,
        )

    def _latent(self, index: int, window: Window | None, suffix: str, expanded: list[int]) -> Latent:
        row = self.heads.window_key_dim if window else self.heads.key_dim
        key = f"attention.kv_lora_rank{suffix}"
        rank = self.keys.needed(key)
        if rank > row:
            raise self.keys.config.wrong(key, rank, f"more than attention.key_length{suffix} = {row}")
        return Latent(
            rank,
            row - rank,
            self.heads.heads[index],
            max(0, expanded[0] - (row - rank)),
            expanded[1],
            index_dim=0 if window else self.indexed[index],
            window=window.tokens if window else None,
            kind=_INDEXED_KIND if not window and any(self.indexed) else None,
        )


def _recurrent(keys: Keys, heads: Heads) -> tuple[bool, ...]:
    """The layers with a state of fixed size."""
    name = keys.architecture
    if name in RECURRENT or name == _BOTH:
        return (True,) * keys.layers
    if name in _BY_HEADS:
        feed_forward = keys.per_layer("feed_forward_length")
        mlp_apart = name.startswith("nemotron_h")
        return tuple(
            not kv_heads and not (mlp_apart and width)
            for kv_heads, width in zip(heads.kv_heads, feed_forward, strict=True)
        )
    if name not in _INTERVALS:
        return (False,) * keys.layers
    named = keys.array("attention.recurrent_layers")
    if named is not None:
        return tuple(map(bool, named))
    interval = keys.config.count(("full_attention_interval",)) or _INTERVALS[name]
    return tuple((index + 1) % interval != 0 for index in range(keys.layers))


def _state(keys: Keys, heads: Heads) -> Recurrence:
    """The state of one recurrent layer, in elements."""
    if keys.size("wkv.head_size"):
        hidden = keys.needed("embedding_length")
        return Recurrence(shift=keys.size("token_shift_count", 2) * hidden, state=hidden * keys.size("wkv.head_size"))
    if keys.size("shortconv.l_cache"):
        return Recurrence(keys.needed("embedding_length"), keys.size("shortconv.l_cache"), kind="conv")
    width = keys.size("ssm.conv_kernel")
    if kda := keys.size("kda.head_dim"):
        return Recurrence(3 * heads.heads[0] * kda, width or _KDA_CONV, kda * kda * heads.heads[0])
    if keys.architecture == "minimax-01":
        return Recurrence(state=heads.key_dim * heads.key_dim * heads.heads[0])
    inner, state = keys.needed("ssm.inner_size"), keys.needed("ssm.state_size")
    groups = 0 if keys.architecture in _ONE_GROUP else keys.size("ssm.group_count")
    kind = _BOTH_KIND if keys.architecture == _BOTH else "linear_attention"
    return Recurrence(inner + 2 * groups * state, width, inner * state, kind=kind)


def _layers_with_cache(keys: Keys) -> int:
    """Layers from here on read the cache of earlier ones."""
    if keys.architecture == "gemma3n":
        return _LAYERS_WITH_CACHE
    if keys.architecture == "gemma4":
        return keys.all_layers - keys.size("attention.shared_kv_layers")
    return keys.layers


def _indexed(keys: Keys) -> tuple[int, ...]:
    """Width of the sparse-attention indexer's key per layer, 0 where a layer has none of its own."""
    width = keys.size("attention.indexer.key_length")
    if keys.architecture not in _INDEXED or not width:
        return (0,) * keys.layers
    own = keys.array("attention.indexer.types") if keys.architecture != "deepseek32" else None
    if own is None and keys.architecture == "glm-dsa" and keys.size("context_length") >= _ALL_INDEXED_BELOW:
        own = tuple(index < 2 or index % 4 == 2 for index in range(keys.layers))
    return (width,) * keys.layers if own is None else tuple(width if one else 0 for one in own)


def _divided(keys: Keys, heads: int) -> int:
    """The hidden size by the heads, 0 without heads or where explicit lengths make it needless."""
    lengths = ("attention.key_length", "attention.value_length")
    if not heads or all(not keys.config.absent((length,)) for length in lengths):
        return 0
    hidden = keys.needed("embedding_length")
    if hidden % heads:
        raise ModelError(
            f"{keys.config.where}: embedding_length = {hidden} is no multiple of the {heads} attention heads",
            "The file gives no attention.key_length either: get it again, or convert the model anew.",
        )
    return hidden // heads
