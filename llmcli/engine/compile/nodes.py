"""Calls in a traced step, and putting others in their place."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import GraphModule, Node


def calls_of(module: GraphModule, target: Any) -> Iterator[Node]:
    """The calls of the operation `target`, in the order of the graph."""
    return (node for node in module.graph.nodes if node.op == "call_function" and node.target is target)


def value_of(node: Any) -> torch.Tensor:
    """Dtype and shape of what a node gives."""
    value: torch.Tensor = node.meta["val"]
    return value


def put_in_place(new: Node, old: Node) -> None:
    """Let `new`, which gives the same, be read wherever `old` was."""
    new.meta["val"] = old.meta["val"]
    old.replace_all_uses_with(new)
    old.graph.erase_node(old)
