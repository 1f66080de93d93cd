"""Dense decoders that mix layers that see everything with layers that see a window.

Each row was read from the model's class in transformers 5.24 and is proved against it in the tests: the number of
parameters, the part of them that bitsandbytes quantizes, and the size of the KV cache.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from llmcli.estimate.config import Config
from llmcli.estimate.counts import NOTHING, Count, linear, tensor
from llmcli.estimate.facts import Blueprint
from llmcli.estimate.families.decoder import Shape, Style, build, sinks
from llmcli.estimate.windows import SLIDING, every, listed, narrowed

_LOCAL = "local_attention"
_PLAIN = Style(qkv_bias="attention_bias", output_bias="attention_bias")


def _looks_ahead(config: Config) -> bool:
    return config.flag("use_bidirectional_attention")


GEMMA3 = replace(
    _PLAIN, norms=4, qk_norm="head", windows=narrowed(every("sliding_window_pattern", 6), when=_looks_ahead)
)
STYLES: Mapping[str, Style] = {
    "cohere2": replace(_PLAIN, norms=1, windows=every("sliding_window_pattern", 4)),
    "cohere_compass_text": replace(_PLAIN, norms=1, windows=listed),
    "cwm": Style(mlp_bias="mlp_bias", windows=every(None, 4, first=True)),
    "exaone4": Style(qk_norm="head", windows=every("sliding_window_pattern", 4)),
    "gemma2": replace(_PLAIN, norms=4, windows=every(None, 2)),
    "gemma3_text": GEMMA3,
    "granite_swa": replace(_PLAIN, mlp_bias="mlp_bias", more=sinks, windows=every(None, 4, first=True)),
    "olmo3": replace(_PLAIN, qk_norm="heads", windows=every(None, 4)),
    "vaultgemma": replace(_PLAIN, windows=every(None, 2)),
}


def _half_local(config: Config) -> int:
    """The window of ModernBertDecoderConfig: half of local_attention, whose other half looks ahead in ModernBERT."""
    tokens = config.count(SLIDING) or config.needed((_LOCAL,)) // 2
    if tokens < 1:
        raise config.wrong(_LOCAL, config.value((_LOCAL,))[1], "no whole number from 2")
    return tokens


def _first_has_no_norm(config: Config, shape: Shape, index: int) -> Count:
    """The norm before attention, which the first layer lacks (ModernBertDecoderLayer)."""
    return tensor(_norm(config) * shape.hidden) if index else NOTHING


def _prediction_head(config: Config, shape: Shape) -> Count:
    """The layer before the head (ModernBertDecoderPredictionHead)."""
    dense = linear(shape.hidden, shape.hidden, bias=config.flag("classifier_bias"))
    return dense + tensor(_norm(config) * shape.hidden)


def _norm(config: Config) -> int:
    return 2 if config.flag("norm_bias") else 1


def _modernbert(config: Config) -> Blueprint:
    style = Style(
        kv_heads="all",
        explicit_head_dim=False,
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias="mlp_bias",
        norm=_norm(config),
        norms=1,
        embedding_norm=True,
        head_bias="decoder_bias",
        windows=every("global_attn_every_n_layers", 3, first=True, window=_half_local),
        more=_first_has_no_norm,
        around=_prediction_head,
    )
    return build(config, style)


BUILDERS: Mapping[str, Callable[[Config], Blueprint]] = {
    **{model_type: partial(build, style=style) for model_type, style in STYLES.items()},
    "modernbert-decoder": _modernbert,
}
