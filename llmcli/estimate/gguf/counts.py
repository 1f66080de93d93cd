"""Parameters of a GGUF file, counted from its tensors."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from llmcli.estimate.counts import NOTHING, Count, linear_weights
from llmcli.estimate.gguf.keys import Keys
from llmcli.models.gguf import GgufTensor

_NO_PARAMETERS = ("rope_freqs", "rope_factors")
_BLOCK = re.compile(r"blk\.(\d{1,6})\.(.*)")
_EXPERTS = re.compile(r"ffn_(gate|up|down|gate_up)_exps\.(weight|bias)")
_NO_LINEAR = re.compile(r".*(norm|conv|ssm_a\b|ssm_d\b|time_mix_(?!key|value|receptance|output|gate)).*")
_EMBEDDING, _HEAD = "token_embd.weight", "output.weight"
_LATENT = {"attn_k_b.weight": 0, "attn_v_b.weight": 1}


@dataclass(frozen=True, slots=True)
class Parameters:
    """Those of each layer of the trunk, and of what stands around them. Draft blocks and rope factors are left out."""

    layers: tuple[Count, ...]
    outside: Count


def parameters_of(tensors: Iterable[GgufTensor], keys: Keys) -> Parameters:
    """Count the parameters of a file with these tensors. The experts that a token uses are expert_used_count."""
    layers = [NOTHING] * keys.layers
    used = keys.per_layer("expert_used_count")
    outside, around = NOTHING, dict[str, GgufTensor]()
    for tensor in tensors:
        place = _BLOCK.fullmatch(tensor.name)
        name = place[2] if place else tensor.name
        if name.startswith(_NO_PARAMETERS):
            continue
        if place is None:
            outside += Count(tensor.elements)
            around[name] = tensor
        elif int(place[1]) < keys.layers:
            layers[int(place[1])] += _count(tensor, name, used[int(place[1])])
    return Parameters(tuple(layers), outside + _head(around.get(_HEAD), around.get(_EMBEDDING)))


def _head(own: GgufTensor | None, embedding: GgufTensor | None) -> Count:
    """The output head, without its part of the total."""
    head = own or embedding
    if head is None:
        return NOTHING
    return Count(head=head.elements, outputs=head.shape[-1], tied=0 if own else head.elements)


def _count(tensor: GgufTensor, name: str, used: int) -> Count:
    """One tensor of a layer. Experts lie along its last dimension."""
    elements = tensor.elements
    if _EXPERTS.fullmatch(name):
        experts = tensor.shape[-1]
        idle = elements // experts * max(0, experts - used)
        counted = min(experts, used) if "_down_" in name else 0  # a layer has its experts in several tensors
        return Count(elements, experts=elements, idle=idle, used=counted)
    if name in _LATENT and len(tensor.shape) == 3:
        outputs = tensor.shape[_LATENT[name]] * tensor.shape[2]
        return linear_weights(elements, elements // outputs, outputs)
    if len(tensor.shape) == 2 and name.endswith("weight") and not _NO_LINEAR.fullmatch(name):
        return linear_weights(elements, *tensor.shape)
    return Count(elements)
