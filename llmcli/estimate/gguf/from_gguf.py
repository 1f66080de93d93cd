"""From a GGUF header to the facts that sizes follow from, whichever engine runs the file.

The keys are read as llama.cpp reads them. Parameters are counted from the tensors themselves; transformers dequantizes
every one of them on load.
"""

from collections.abc import Iterable

from llmcli.errors import ModelError
from llmcli.estimate.architecture import Architecture
from llmcli.estimate.facts import Attention, Layer, Mixer
from llmcli.estimate.gguf.architectures import KNOWN, model_type_of
from llmcli.estimate.gguf.counts import parameters_of
from llmcli.estimate.gguf.keys import Keys, keys_of, vocabulary_of
from llmcli.estimate.gguf.layers import Heads, heads_of, mixers_of
from llmcli.estimate.gguf.refusals import incomplete, refuse_unsized
from llmcli.models.gguf import GgufHeader, GgufTensor
from llmcli.models.gguf_checks import refuse_short, refuse_split

DTYPE = "bfloat16"


def from_gguf(header: GgufHeader, *others: GgufHeader) -> Architecture:
    """The facts in a GGUF header; `others`: the headers of the other parts of a model that was split.

    Raises ModelError that names what is missing, wrong, or cannot be sized.
    """
    if len(others) + 1 < header.split_count:
        refuse_split(header)
    for part in (header, *others):
        refuse_short(part)
    refuse_unsized(header)
    keys = keys_of(header)
    heads = heads_of(keys)
    mixers = mixers_of(keys, heads)
    tensors = [tensor for part in (header, *others) for tensor in part.tensors]
    _compare(keys, heads, mixers, tensors)
    parameters = parameters_of(tensors, keys)
    layers = tuple(Layer(held, count) for held, count in zip(mixers, parameters.layers, strict=True))
    first = next((index for index, kv_heads in enumerate(heads.kv_heads) if kv_heads), None)
    return Architecture(
        model_type=model_type_of(keys.architecture),
        layers=layers,
        count=sum(parameters.layers, start=parameters.outside),
        heads=0 if first is None else heads.heads[first],
        kv_heads=0 if first is None else heads.kv_heads[first],
        head_dim=0 if first is None else heads.key_dim,
        hidden=keys.size("embedding_length"),
        intermediate=_intermediate(keys),
        vocabulary=vocabulary_of(header, keys),
        dtype=DTYPE,
        positions=keys.config.count(("context_length",)),
        inexact=_inexact(keys),
        warnings=()
        if tensors
        else (f"{header.path} holds no weights: it lists no tensors, so only its cache is sized",),
    )


def _intermediate(keys: Keys) -> int:
    """Channels of the MLP that one token passes through: of the experts that it uses, where there are any."""
    used = max(keys.per_layer("expert_used_count"), default=0)
    width = max(keys.per_layer("expert_feed_forward_length"), default=0)
    if not used or not width:
        return max(keys.per_layer("feed_forward_length"), default=0)
    return used * width + keys.size("expert_shared_feed_forward_length")


def _inexact(keys: Keys) -> tuple[str, ...]:
    if keys.architecture not in KNOWN:
        return (f"{keys.architecture} is not known here: full attention in every layer, an upper bound",)
    reason = incomplete(keys)
    return (reason,) if reason else ()


def _compare(keys: Keys, heads: Heads, mixers: tuple[tuple[Mixer, ...], ...], tensors: Iterable[GgufTensor]) -> None:
    """Refuse a header whose heads do not share KV heads evenly, or contradict the shape of a K projection."""
    rows = {tensor.name: tensor.shape[-1] for tensor in tensors if tensor.name.endswith(".attn_k.weight")}
    for index, (number, kv_heads) in enumerate(zip(heads.heads, heads.kv_heads, strict=True)):
        if kv_heads and number % kv_heads:
            raise ModelError(
                f"{keys.config.where}: {kv_heads} KV heads do not divide {number} attention heads",
                "The header is damaged or of a kind that is not known here.",
            )
        found = rows.get(f"blk.{index}.attn_k.weight")
        for mixer in mixers[index]:
            if isinstance(mixer, Attention) and found not in {None, mixer.kv_heads * mixer.key_dim}:
                raise ModelError(
                    f"{keys.config.where}: {mixer.kv_heads} KV heads of {mixer.key_dim} contradict the {found} rows "
                    f"of blk.{index}.attn_k.weight",
                    "The header is damaged or of a kind that is not known here.",
                )
