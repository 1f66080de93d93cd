"""The number of a layer's KV heads, and the width of a head, as most configs say them."""

from llmcli.errors import ModelError
from llmcli.estimate import config as keys
from llmcli.estimate.config import Config


def kv_heads_of(config: Config, heads: int, names: tuple[str, ...] = keys.KV_HEADS) -> int:
    """The number of KV heads, all heads where the config says none. Raises ModelError where it divides no heads."""
    kv_heads = config.count(names) or heads
    check_groups(config, config.value(names)[0], kv_heads, heads)
    return kv_heads


def check_groups(config: Config, name: str, kv_heads: int, heads: int) -> None:
    """Raise ModelError where `heads` are not so many to each of `kv_heads`; name: what the config calls those."""
    if not heads or heads % kv_heads:
        raise ModelError(
            f"{config.where}: {name} = {kv_heads} does not divide the {heads} attention heads",
            "Every KV head serves the same number of attention heads: check the file.",
        )


def head_dim_of(config: Config, hidden: int, heads: int, *, explicit: bool = True) -> int:
    """The explicit head_dim where the model's class reads it, else hidden ÷ heads.

    Raises ModelError where the heads do not divide the channels.
    """
    said = config.count(keys.HEAD_DIM) if explicit else None
    if said:
        return said
    if hidden % heads:
        raise ModelError(
            f"{config.where}: the hidden size {hidden} is no multiple of the {heads} attention heads",
            "Check the file: it gives no head_dim either.",
        )
    return hidden // heads
