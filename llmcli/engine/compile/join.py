"""Projections of one input, joined: one call of the 4-bit kernel where a model's code makes several.

A call of the kernel costs what reading some hundred kilobytes of weights does, so query, key and value of a small model
are multiplied together. Larger products lose by it: their results have to be taken apart again.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch.fx import GraphModule, Node

from llmcli.engine.compile.nodes import calls_of, put_in_place, value_of
from llmcli.engine.int4 import PACKED_ROWS

_ATEN = torch.ops.aten
_KERNEL = _ATEN._weight_int4pack_mm_for_cpu.default
_SAME_NUMBERS = {_ATEN.reshape.default, _ATEN.view.default, _ATEN.contiguous.default, _ATEN.clone.default}

_MOST_WEIGHTS = 1 << 20
"""What joined layers have together at most. 0.6 million of query, key and value gain, 1.8 of gate and up lose."""

Joined = dict[str, tuple[str, ...]]
"""Names of joined tensors, each with those of its parts."""


def join_projections(module: GraphModule) -> Joined:
    """Replace the int4 products of a traced step that have one input by one of all their weights, where that pays."""
    joined: Joined = {}
    buffers = dict(module.named_buffers(remove_duplicate=False))
    for at, nodes in enumerate(_alike(module)):
        parts = {f"joined_{at}_{what}": _names(nodes, argument) for what, argument in _WEIGHTS.items()}
        for name, tensor in joined_tensors(parts, buffers).items():
            module.register_buffer(name, tensor)
        _replace(module, nodes, *parts)
        joined |= parts
    if joined:
        module.graph.eliminate_dead_code()
        module.graph.lint()
        module.recompile()
    return joined


def joined_tensors(joined: Mapping[str, Iterable[str]], tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The joined tensors by name, made of those of a model: one layer's outputs after the other's.

    Packed weights (out, in ÷ 2) and scales (in ÷ 32, out, 2) have them in the last dimension but one.
    """
    return {name: torch.cat([tensors[part] for part in parts], dim=-2) for name, parts in joined.items()}


_WEIGHTS = {"packed": 1, "scale_zero": 3}
"""Which arguments of the kernel the weights are."""


def _alike(module: GraphModule) -> Iterator[list[Node]]:
    """Runs of calls of the kernel with the same input whose weights may be joined, in the order of the graph."""
    calls: dict[Node, list[Node]] = defaultdict(list)
    for node in calls_of(module, _KERNEL):
        calls[_origin(node.args[0])].append(node)
    for nodes in calls.values():
        yield from (run for run in _runs(nodes) if len(run) > 1)


def _origin(node: Any) -> Node:
    """What has the same numbers in the same order."""
    while node.op == "call_function" and node.target in _SAME_NUMBERS:
        node = node.args[0]
    origin: Node = node
    return origin


def _runs(nodes: Sequence[Any]) -> list[list[Node]]:
    """`nodes` in runs that may be joined: small, and the kernel's order of PACKED_ROWS goes on from part to part."""
    runs: list[list[Node]] = []
    weights = 0
    for node, before in zip(nodes, [None, *nodes], strict=False):
        size = 2 * value_of(node.args[1]).numel()
        weights += size
        if before is not None and _goes_on(before, node) and weights <= _MOST_WEIGHTS:
            runs[-1].append(node)
        else:
            runs.append([node])
            weights = size
    return runs


def _goes_on(before: Any, node: Any) -> bool:
    rows, wide = value_of(before.args[1]).shape
    return rows % PACKED_ROWS == 0 and wide == value_of(node.args[1]).shape[1]


def _names(nodes: Sequence[Any], argument: int) -> tuple[str, ...]:
    return tuple(str(node.args[argument].target) for node in nodes)


def _replace(module: GraphModule, nodes: Sequence[Node], packed: str, scale_zero: str) -> None:
    graph, first = module.graph, nodes[0]
    x, _, group, _ = first.args
    with graph.inserting_before(first):
        weights = (graph.get_attr(packed), group, graph.get_attr(scale_zero))
        product = graph.call_function(_KERNEL, (x, *weights))
    borders = accumulate((value_of(node).shape[-1] for node in nodes), initial=0)
    for node, (start, end) in zip(nodes, pairwise(borders), strict=True):
        with graph.inserting_before(node):
            part = graph.call_function(_ATEN.slice.Tensor, (product, 1, start, end))
        put_in_place(part, node)
