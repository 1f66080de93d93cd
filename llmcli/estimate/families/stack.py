"""A decoder as a stack of layers of several kinds, and what stands around them."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from llmcli.estimate import config as keys
from llmcli.estimate.config import Config
from llmcli.estimate.counts import NOTHING, Count, embeddings, tensor
from llmcli.estimate.facts import Blueprint, Layer
from llmcli.estimate.families.self_attention import SelfAttention

_Kind = TypeVar("_Kind", bound=Hashable)


def stack(
    config: Config,
    layers: Iterable[Layer],
    intermediate: int,
    attention: SelfAttention | None = None,
    *,
    norm: int = 1,
    own_head: bool = False,
    around: Count = NOTHING,
    inexact: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
) -> Blueprint:
    """The whole decoder: embedding, `layers`, a final norm, and a head where that is not the embedding.

    intermediate: the channels inside the MLP that a token passes through. attention: of the first attention layer.
    norm: weights per channel in the final norm. own_head: the type never ties the head to the embedding. around: what
    else stands around the layers. inexact: why sizes are not exact; notes: what else is to be said about them.
    """
    hidden, vocabulary = config.needed(keys.HIDDEN), config.needed(keys.VOCABULARY)
    tied = config.flag("tie_word_embeddings") and not own_head
    return Blueprint(
        layers=tuple(layers),
        outside=embeddings(vocabulary, hidden, tied=tied) + tensor(norm, hidden) + around,
        hidden=hidden,
        intermediate=intermediate,
        vocabulary=vocabulary,
        heads=attention.heads if attention else 0,
        kv_heads=attention.kv_heads if attention else 0,
        head_dim=attention.head_dim if attention else 0,
        inexact=inexact,
        notes=notes,
    )


def layers_of(kinds: Iterable[_Kind], made: Callable[[_Kind], Layer]) -> list[Layer]:
    """One layer per kind, made once for equal ones: a config may have tens of thousands of layers."""
    known: dict[_Kind, Layer] = {}
    return [known[kind] if kind in known else known.setdefault(kind, made(kind)) for kind in kinds]
